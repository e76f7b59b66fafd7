//! A platform that speaks in lines of JSON over TCP: `lines` in addresses.
//!
//! ```text
//! {"after": "4"} ─►  ◄─ {"number": 5, "at": 1796000000, "by": "7", "name": "Ada", "text": "hello"}
//! {"to": "7", "text": "Hello."} ─►  ◄─ {"taken": 12}
//! ```

use crate::{rules::Rules, shown};
use async_trait::async_trait;
use bytes::Bytes;
use famulus_core::{
    inbound::{Address, Chat},
    intake::{
        Account, Arrival, FetchError, Happening, Keep, ListenError, Listener, Press, RemoteFile,
        Writer, Written,
    },
    outbound::{Capabilities, Channel, Delivered, Outbound, ReplyRule, SendError},
    pairing::Access,
};
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream},
    net::TcpStream,
};

/// The channel's name in addresses.
pub const NAME: &str = "lines";

/// The section `[channels.lines]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Of the platform; without one there is no channel.
    pub address: Option<SocketAddr>,
    pub access: Access,
    pub allow: Vec<String>,
}

impl Config {
    pub fn rules(&self) -> Rules {
        Rules { access: self.access, allow: self.allow.clone(), ..Rules::default() }
    }
}

/// The channel named `lines`.
#[derive(Clone)]
pub struct Lines {
    address: SocketAddr,
}

#[derive(Deserialize)]
struct Told {
    number: u64,
    /// Seconds.
    at: i64,
    by: String,
    name: String,
    text: String,
}

#[derive(Deserialize)]
struct Taken {
    taken: u64,
}

impl Lines {
    pub fn new(config: &Config) -> Option<Self> {
        config.address.map(|address| Self { address })
    }

    async fn open(&self) -> io::Result<BufStream<TcpStream>> {
        Ok(BufStream::new(TcpStream::connect(self.address).await?))
    }
}

async fn say(peer: &mut BufStream<TcpStream>, words: &Value) -> io::Result<()> {
    peer.write_all(format!("{words}\n").as_bytes()).await?;
    peer.flush().await
}

#[async_trait]
impl Channel for Lines {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            limit: None,
            attachments: false,
            threads: false,
            idempotent: false,
            reply: ReplyRule::Text,
        }
    }

    async fn send(&self, message: &Outbound, _piece: usize) -> Result<Delivered, SendError> {
        let channel = || NAME.to_owned();
        let not_sent = |error: io::Error| SendError::NotSent {
            channel: channel(),
            reason: error.to_string(),
            after: None,
        };
        let mut peer = self.open().await.map_err(not_sent)?;
        let words = json!({"to": message.to.chat, "text": shown(&message.markdown)});
        let mut line = String::new();
        // From here it may have arrived.
        let answered = async {
            say(&mut peer, &words).await?;
            peer.read_line(&mut line).await
        };
        let taken = answered.await.map(|_| serde_json::from_str::<Taken>(&line));
        match taken {
            Ok(Ok(Taken { taken })) => Ok(Delivered { id: Some(taken.to_string()) }),
            Ok(Err(_)) | Err(_) => Err(SendError::Unknown { channel: channel() }),
        }
    }

    fn listener(&self) -> Option<Arc<dyn Listener>> {
        Some(Arc::new(self.clone()))
    }
}

fn passing(error: impl ToString) -> ListenError {
    ListenError::Passing { reason: error.to_string(), after: None }
}

impl Lines {
    async fn hear(&self, after: Option<String>, keep: &dyn Keep) -> Result<(), ListenError> {
        let mut peer = self.open().await.map_err(passing)?;
        say(&mut peer, &json!({ "after": after })).await.map_err(passing)?;
        keep.heard().await;
        let mut lines = peer.lines();
        while let Some(line) = lines.next_line().await.map_err(passing)? {
            let Told { number, by, .. } = serde_json::from_str(&line).map_err(passing)?;
            let number = number.to_string();
            let told = Arrival { key: number.clone(), chat: by, body: line.into_bytes() };
            keep.keep(vec![told], Some(&number)).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Listener for Lines {
    async fn account(&self) -> Result<Account, ListenError> {
        Ok(Account { id: self.address.to_string(), name: None, link: None })
    }

    async fn listen(&self, place: Option<String>, keep: &dyn Keep) -> ListenError {
        match self.hear(place, keep).await {
            Ok(()) => passing("it hung up"),
            Err(error) => error,
        }
    }

    fn read(&self, account: &str, body: &[u8]) -> Happening {
        let Ok(told) = serde_json::from_slice::<Told>(body) else { return Happening::Nothing };
        let reply = Address {
            channel: NAME.to_owned(),
            account: account.to_owned(),
            chat: told.by.clone(),
            thread: None,
            reply_to: None,
        };
        Happening::Wrote(Box::new(Written {
            key: told.number.to_string(),
            chat: Chat::direct(&*told.by),
            from: Writer { id: told.by, name: told.name, language: None },
            reply,
            text: told.text,
            forwarded: None,
            quoted: None,
            files: Vec::new(),
            album: None,
            edits: None,
            vanishes_after: None,
            written_at: Timestamp::from_second(told.at).unwrap_or_default(),
        }))
    }

    async fn answer_press(&self, _: &Press, _: Option<&str>) -> Result<(), ListenError> {
        Ok(())
    }

    async fn leave(&self, _: &str) -> Result<(), ListenError> {
        Ok(())
    }

    async fn fetch(
        &self,
        _: &RemoteFile,
    ) -> Result<BoxStream<'static, io::Result<Bytes>>, FetchError> {
        Err(FetchError::Lasting { reason: "no files are sent there".to_owned() })
    }
}

#[cfg(test)]
mod tests;
