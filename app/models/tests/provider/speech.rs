//! Recordings to words and words to recordings, over a real connection.

use crate::support::{Files, installed_tls};
use famulus_core::blob::BlobRef;
use famulus_core::ids::PersonId;
use famulus_core::message::FilePart;
use famulus_core::model::{Disposition, Usage};
use famulus_core::speech::{Speaker, SpeechError, Transcriber, Transcript};
use famulus_models::scripted::{Scenario, Script, Scripted, Step};
use famulus_models::speech::{Listening, Speaking};
use futures::TryStreamExt as _;
use serde_json::{Value, json};
use std::time::Duration;

fn listening(server: &Scripted, extra: &str) -> Listening {
    installed_tls();
    let toml = format!("base_url = '{}'\nname = 'whisper-1'\n{extra}", server.base_url());
    Listening::new(toml::from_str(&toml).unwrap()).unwrap().unwrap()
}

fn speaking(server: &Scripted, extra: &str) -> Speaking {
    installed_tls();
    let toml = format!("base_url = '{}'\nname = 'gpt-4o-mini-tts'\n{extra}", server.base_url());
    Speaking::new(toml::from_str(&toml).unwrap()).unwrap().unwrap()
}

fn recording(files: &Files, mime: &str, words: &str) -> FilePart {
    let size = words.len() as u64;
    FilePart::new(files.add(mime, words.as_bytes(), size), "../the secret name.oga")
}

#[tokio::test]
async fn a_recording_becomes_words() {
    let server = Scripted::listen(0, Some("sesame")).await.unwrap();
    let listening = listening(&server, "api_key = 'sesame'");
    let files = Files::default();
    let voice = recording(&files, "audio/ogg; codecs=opus", "good morning");
    let heard = listening.transcribe(&voice, PersonId::new(), &files).await.unwrap();
    let usage = Usage { input_tokens: Some(12), output_tokens: Some(2) };
    assert_eq!(heard, Transcript { text: "good morning".into(), usage, seconds: None });
    let asked = server.received().pop().unwrap();
    assert_eq!(asked.path, "/v1/audio/transcriptions");
    let body = String::from_utf8_lossy(&asked.body);
    assert!(body.contains("filename=\"recording.ogg\"") && !body.contains("secret"), "{body}");
    assert!(body.contains("whisper-1"), "{body}");
    // The length is told: servers refuse a body of which they do not know how long it is.
    assert!(asked.header("content-length").is_some(), "{:?}", asked.headers);
}

/// As some models count, and some servers that somebody runs do not.
#[tokio::test]
async fn seconds_are_counted_where_the_provider_counts_them() {
    let server = Scripted::start().await.unwrap();
    let listening = listening(&server, "");
    let files = Files::default();
    let voice = recording(&files, "audio/mpeg", "hello");
    let check = async |usage: Value, seconds: Option<u64>| {
        let answer = json!({"text": "hello", "usage": usage});
        server.push(Scenario::Script(Script::json(200, &answer)));
        let heard = listening.transcribe(&voice, PersonId::new(), &files).await.unwrap();
        assert_eq!((heard.seconds, heard.usage), (seconds, Usage::default()), "{answer}");
    };
    check(json!({"type": "duration", "seconds": 7}), Some(7)).await;
    check(json!({"type": "duration", "seconds": 2.01}), Some(3)).await;
    check(json!({"type": "duration", "seconds": -1}), Some(0)).await;
    check(Value::Null, None).await;
}

#[tokio::test]
async fn what_went_wrong_with_a_recording_is_said() {
    let server = Scripted::start().await.unwrap();
    let listening = listening(&server, "seconds = 1");
    let files = Files::default();
    let voice = recording(&files, "audio/mpeg", "hello");
    let check = async |day: Scenario, expected: &str, retry: bool| {
        let shown = format!("{day:?}");
        server.push(day);
        let asked = listening.transcribe(&voice, PersonId::new(), &files).await;
        let error = asked.expect_err(&shown);
        assert!(error.to_string().contains(expected), "{shown}: {error}");
        let retries = matches!(error.disposition(), Disposition::Retry { .. });
        assert_eq!(retries, retry, "{shown}: {error}");
    };
    check(Scenario::Busy { retry_after: "7".into() }, "asks to slow down", true).await;
    check(Scenario::Status(500), "`transcription` failed (status 500)", true).await;
    check(Scenario::Status(401), "check `transcription.api_key`", false).await;
    check(Scenario::Status(400), "refused the request (status 400)", false).await;
    check(Scenario::Deaf, "longer than 1 s; `transcription.seconds`", true).await;
    check(Scenario::Page, "not its protocol", true).await;
    let cut = vec![Step::Send("{\"te".into()), Step::Reset];
    let headers = vec![("content-type", "application/json".to_owned())];
    let cut = Script { status: 200, headers, steps: cut };
    check(Scenario::Script(cut), "broke off", true).await;
    let endless = Script {
        status: 200,
        headers: Vec::new(),
        steps: vec![Step::SendForEver(vec![b' '; 1 << 16].into())],
    };
    check(Scenario::Script(endless), "more than 4194304 bytes", true).await;
    // What is gone is not asked about.
    let gone = FilePart::new(BlobRef { id: famulus_core::ids::BlobId::new(), ..voice.blob }, "a");
    let before = server.received().len();
    let error = listening.transcribe(&gone, PersonId::new(), &files).await.unwrap_err();
    assert!(matches!(error, SpeechError::File(_)) && server.received().len() == before);
}

#[tokio::test]
async fn words_become_a_recording() {
    let server = Scripted::start().await.unwrap();
    let speaking = speaking(&server, "voice = 'nova'\ninstructions = 'calmly'");
    let spoken = speaking.say("good morning").await.unwrap();
    assert_eq!((spoken.mime.as_str(), spoken.extension), ("audio/ogg", "ogg"));
    let bytes: Vec<u8> = spoken.bytes.try_collect::<Vec<_>>().await.unwrap().concat();
    assert_eq!(bytes, b"good morning");
    let asked = server.received().pop().unwrap().json();
    let expected = serde_json::json!({
        "model": "gpt-4o-mini-tts", "voice": "nova", "input": "good morning",
        "response_format": "opus", "instructions": "calmly",
    });
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn what_went_wrong_with_words_is_said() {
    let server = Scripted::start().await.unwrap();
    let speaking = speaking(&server, "seconds = 1");
    let check = async |day: Scenario, expected: &str| {
        let shown = format!("{day:?}");
        server.push(day);
        let error = speaking.say("hello").await.err().expect(&shown).to_string();
        assert!(error.contains(expected), "{shown}: {error}");
    };
    check(Scenario::Status(401), "check `speech.api_key`").await;
    check(Scenario::Status(429), "asks to slow down").await;
    check(Scenario::Page, "text/html").await;
    check(Scenario::Deaf, "longer than 1 s").await;
    let sent = |steps| {
        let headers = vec![("content-type", "audio/opus".to_owned())];
        Scenario::Script(Script { status: 200, headers, steps })
    };
    let broken = async |steps: Vec<Step>| {
        server.push(sent(steps));
        let spoken = speaking.say("hello").await.unwrap();
        let bytes = spoken.bytes.try_collect::<Vec<_>>();
        tokio::time::timeout(Duration::from_secs(10), bytes).await.unwrap().unwrap_err()
    };
    broken(vec![Step::Send("he".into()), Step::Reset]).await;
    let late = broken(vec![Step::Send("he".into()), Step::Hang]).await;
    assert_eq!(late.kind(), std::io::ErrorKind::TimedOut);
}
