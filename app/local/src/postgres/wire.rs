//! Just enough of the Postgres protocol to ask whether the server is there and to run statements
//! without parameters or results.
//!
//! The assistant's own queries do not come this way: they go through the store, which this crate
//! may not know.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::SUPERUSER;
use super::error::PostgresError;

/// Version 3.0 of the protocol, which every server speaks.
const PROTOCOL: u32 = 3 << 16;

/// Longer messages than this do not occur here: the longest carry the text of an error.
const LONGEST_MESSAGE: u32 = 1 << 20;

/// One connection of the superuser to one database.
#[derive(Debug)]
pub(super) struct Session {
    stream: UnixStream,
    socket: PathBuf,
    database: String,
}

struct Message {
    kind: u8,
    body: Vec<u8>,
}

impl Session {
    pub(super) async fn connect(socket: &Path, database: &str) -> Result<Self, PostgresError> {
        let stream = UnixStream::connect(socket).await.map_err(broke_off(socket))?;
        let mut session = Self { stream, socket: socket.to_owned(), database: database.to_owned() };
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        for (key, value) in
            [("user", SUPERUSER), ("database", database), ("application_name", "famulus-local")]
        {
            for text in [key, value] {
                body.extend_from_slice(text.as_bytes());
                body.push(0);
            }
        }
        body.push(0);
        session.send(None, &body).await?;
        session.until_ready().await?;
        Ok(session)
    }

    /// Runs one or more statements. Several without transaction commands of their own succeed or
    /// fail as one.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), PostgresError> {
        let mut body = sql.as_bytes().to_vec();
        body.push(0);
        self.send(Some(b'Q'), &body).await?;
        self.until_ready().await
    }

    /// Reads up to *ready for query* and returns the first error on the way.
    async fn until_ready(&mut self) -> Result<(), PostgresError> {
        let mut refusal = None;
        loop {
            match self.receive().await {
                Ok(Message { kind: b'Z', .. }) => return refusal.map_or(Ok(()), Err),
                Ok(Message { kind: b'E', body }) if refusal.is_none() => {
                    refusal = Some(self.refusal(&body));
                }
                Ok(_) => {}
                // A server that refuses the connection says why and hangs up.
                Err(error) => {
                    return Err(refusal.unwrap_or_else(|| broke_off(&self.socket)(error)));
                }
            }
        }
    }

    async fn send(&mut self, kind: Option<u8>, body: &[u8]) -> Result<(), PostgresError> {
        let mut message = Vec::with_capacity(body.len() + 5);
        message.extend(kind);
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(body);
        self.stream.write_all(&message).await.map_err(broke_off(&self.socket))
    }

    async fn receive(&mut self) -> io::Result<Message> {
        let kind = self.stream.read_u8().await?;
        let length = self.stream.read_u32().await?;
        if !(4..=LONGEST_MESSAGE).contains(&length) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of absurd length"));
        }
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body).await?;
        Ok(Message { kind, body })
    }

    fn refusal(&self, body: &[u8]) -> PostgresError {
        let field = |wanted: u8| {
            let mut fields = body.split(|byte| *byte == 0);
            let found = fields.find(|field| field.first() == Some(&wanted));
            found.map(|field| String::from_utf8_lossy(&field[1..]).into_owned()).unwrap_or_default()
        };
        let (message, code) = (field(b'M'), field(b'C'));
        PostgresError::Refused { database: self.database.clone(), message, code }
    }
}

fn broke_off(socket: &Path) -> impl FnOnce(io::Error) -> PostgresError {
    let socket = socket.to_owned();
    move |source| PostgresError::Connection { socket, source }
}
