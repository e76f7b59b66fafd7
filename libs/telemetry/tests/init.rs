//! Installs everything once, as a process does, against a scripted collector.

#![expect(clippy::unwrap_used, reason = "a test helper fails by panicking")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use famulus_telemetry::{Config, Error, init};

#[test]
fn logs_traces_and_metrics_of_one_process() {
    let wrong = Config { log: "info,=".to_owned(), ..Config::default() };
    let refused = init(&wrong).unwrap_err().to_string();
    assert!(refused.contains("log filter \"info,=\" is not valid"), "{refused}");

    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let received = thread::spawn(move || {
        let (mut stream, _) = collector.accept().unwrap();
        let request = read_request(&mut stream);
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
        request
    });

    let config =
        Config { log: "error".to_owned(), otlp_endpoint: Some(endpoint), ..Config::default() };
    let guard = init(&config).unwrap();
    guard.redactor().add("very-secret").unwrap();

    tracing::info_span!("turn", turn.note = "with very-secret inside").in_scope(|| {
        metrics::counter!("famulus_turns_total").increment(2);
        metrics::histogram!("famulus_turn_seconds").record(0.3);
    });
    let text = guard.metrics_text();
    assert!(text.contains("famulus_turns_total 2"), "{text}");
    assert!(text.contains("famulus_turn_seconds_bucket{le=\"0.5\"} 1"), "{text}");

    assert!(!tracing::enabled!(target: "famulus", tracing::Level::DEBUG));
    guard.set_level("famulus=debug").unwrap();
    assert!(tracing::enabled!(target: "famulus", tracing::Level::DEBUG));
    assert!(guard.set_level("famulus=loud").is_err());
    assert!(tracing::enabled!(target: "famulus", tracing::Level::DEBUG));

    assert!(matches!(init(&Config::default()), Err(Error::AlreadyInstalled)));

    drop(guard);
    let request = received.join().unwrap();
    assert!(request.starts_with("POST /v1/traces HTTP/1.1"), "{request}");
    assert!(request.contains("with [redacted] inside"), "{request}");
    assert!(!request.contains("very-secret"), "{request}");
}

/// The head and the body of one request, with bytes that are not text replaced.
fn read_request(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).unwrap();
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let length: usize = text[..head]
            .lines()
            .find_map(|line| {
                line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned)
            })
            .map_or(0, |length| length.parse().unwrap());
        let raw_head = request.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        if request.len() >= raw_head + 4 + length {
            return text;
        }
        assert_ne!(read, 0, "the exporter closed the connection in the middle of its request");
    }
}
