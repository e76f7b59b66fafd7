//! A Postgres that is too old: a peer that says as much of the protocol as it takes to be asked for
//! its version.

use famulus_store::{Connect, Store};
use std::net::Ipv4Addr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

/// The code of a request for TLS, in place of a protocol's version.
const TLS: i32 = 80_877_103;
const INT4: i32 = 23;
const TEXT: i32 = 25;

#[tokio::test]
async fn a_postgres_that_is_too_old_is_named_with_the_remedy() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("postgres://ada@{address}/famulus");
    let opened = Store::connect(Connect::new(url), CancellationToken::new());
    let error = tokio::select! {
        opened = opened => opened.err().expect("it is refused"),
        () = serve(listener) => unreachable!("the peer serves until it is dropped"),
    };
    assert_eq!(
        error.to_string(),
        format!(
            "Postgres 14.11 at {address}/famulus is too old; upgrade it to 15 or newer, \
             or name no database and let Famulus start its own"
        )
    );
}

async fn serve(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        greet(&mut stream).await;
        while let Some((kind, body)) = message(&mut stream).await {
            // What is asked is known from the statement, of which a server describes the column
            // before it sends the row.
            if kind == b'P' {
                answer(&mut stream, &String::from_utf8_lossy(&body)).await;
            }
        }
    }
}

/// Refuses TLS, lets anybody in, and says its version as every server does.
async fn greet(stream: &mut TcpStream) {
    loop {
        let length = stream.read_i32().await.unwrap();
        let code = stream.read_i32().await.unwrap();
        let mut rest = vec![0; length as usize - 8];
        stream.read_exact(&mut rest).await.unwrap();
        if code != TLS {
            break;
        }
        stream.write_all(b"N").await.unwrap();
    }
    let mut hello = framed(b'R', &0_i32.to_be_bytes());
    hello.extend(framed(b'S', b"server_version\x0014.11\0"));
    hello.extend(framed(b'Z', b"I"));
    stream.write_all(&hello).await.unwrap();
}

/// Answers one statement of the extended protocol, from its first `Sync` to its last.
async fn answer(stream: &mut TcpStream, statement: &str) {
    let (kind, value) = if statement.contains("current_setting('server_version_num')::int") {
        (INT4, 140_011_i32.to_be_bytes().to_vec())
    } else if statement.contains("show server_version") {
        (TEXT, b"14.11".to_vec())
    } else {
        unreachable!("an old server is asked nothing but its version: {statement}");
    };
    stream.write_all(&framed(b'1', b"")).await.unwrap();
    let mut answered = false;
    while let Some((asked, _)) = message(stream).await {
        let said = match asked {
            b'D' => [framed(b't', &0_i16.to_be_bytes()), framed(b'T', &column(kind))].concat(),
            b'B' => framed(b'2', b""),
            b'E' => [framed(b'D', &row(&value)), framed(b'C', b"SELECT 1\0")].concat(),
            b'C' => framed(b'3', b""),
            b'S' => framed(b'Z', b"I"),
            other => unreachable!("a message `{}`", char::from(other)),
        };
        stream.write_all(&said).await.unwrap();
        answered |= asked == b'E';
        if answered && asked == b'S' {
            return;
        }
    }
}

/// The next message; `None` when the client has left.
async fn message(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let kind = stream.read_u8().await.ok()?;
    let length = stream.read_i32().await.ok()?;
    let mut body = vec![0; length as usize - 4];
    stream.read_exact(&mut body).await.ok()?;
    Some((kind, body))
}

fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len() as i32 + 4;
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

/// One column of a type, in the binary format.
fn column(kind: i32) -> Vec<u8> {
    let mut body = [&1_i16.to_be_bytes()[..], b"value\0", &[0; 6], &kind.to_be_bytes()].concat();
    body.extend((-1_i16).to_be_bytes());
    body.extend((-1_i32).to_be_bytes());
    body.extend(1_i16.to_be_bytes());
    body
}

fn row(value: &[u8]) -> Vec<u8> {
    let length = value.len() as i32;
    [&1_i16.to_be_bytes()[..], &length.to_be_bytes(), value].concat()
}
