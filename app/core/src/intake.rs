//! What platforms tell: kept as it came before anything is made of it, then read.
//!
//! ```text
//! listen ─► arrival, stored with the place to go on from ─► read ─► Happening ─► reception
//! ```
//!
//! One process at a time listens to an account. What it hears is confirmed to the platform only when it is
//! stored; what happens in one chat is read in its order.

use crate::StoreError;
use crate::configure::is_configure;
use crate::inbound::{Address, Chat};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use jiff::Timestamp;
use std::io;
use std::time::Duration;

/// Something that a platform told, in the platform's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Unique for its account: the platform's own number.
    pub key: String,
    /// Where it happened.
    pub chat: String,
    pub body: Vec<u8>,
}

/// Keeps what a listener hears.
#[async_trait]
pub trait Keep: Send + Sync {
    /// Stores arrivals, each once, with the place behind them: then the platform may forget them. Without a
    /// place nobody is told them again, and they are stored whoever listens by now.
    ///
    /// # Errors
    /// Nothing was stored. [`StoreError::LeaseLost`]: another process listens now, and is told them.
    async fn keep(&self, arrivals: Vec<Arrival>, place: Option<&str>) -> Result<(), StoreError>;

    /// Waits until this process is to listen no more.
    async fn over(&self) {
        std::future::pending::<()>().await;
    }

    /// The platform answered: whatever was wrong is over.
    async fn heard(&self);
}

/// An account of ours on a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The platform's own id for it.
    pub id: String,
    /// As the platform shows it.
    pub name: Option<String>,
    /// What a link to it begins with, where there are such links: the word behind it is what whoever
    /// opens it says first, as `/start WORD`.
    pub link: Option<String>,
}

/// A channel that hears what people write.
#[async_trait]
pub trait Listener: Send + Sync + 'static {
    /// The account of ours: asked of the platform where it must be.
    ///
    /// # Errors
    /// The platform does not know us, or does not answer.
    async fn account(&self) -> Result<Account, ListenError>;

    /// Listens from a place on, for as long as nothing fails. What calls this drops it to end it; where
    /// [`tells_once`](Self::tells_once) holds, only some time after [`Keep::over`], in which what is already
    /// on its way is kept.
    async fn listen(&self, place: Option<String>, keep: &dyn Keep) -> ListenError;

    /// Whether what was told is told to nobody again.
    fn tells_once(&self) -> bool {
        false
    }

    /// What an arrival says. It never fails: what cannot be read is [`Happening::Nothing`].
    fn read(&self, account: &str, body: &[u8]) -> Happening;

    /// What may be stored of an arrival in which `/configure` stands: all of it but what stands behind the word.
    /// Of any other it is `None`, and the arrival is stored as it came. Unless a channel says more, nothing of such
    /// an arrival is stored: it reads as [`Happening::Nothing`].
    fn redacted(&self, account: &str, body: &[u8]) -> Option<Vec<u8>> {
        let Happening::Wrote(written) = self.read(account, body) else { return None };
        let quoted = written.quoted.as_ref().is_some_and(|quoted| is_configure(&quoted.text));
        (quoted || is_configure(&written.text)).then(Vec::new)
    }

    /// Says what became of a press of a button, so that it stops turning.
    ///
    /// # Errors
    /// The platform did not take it; the press may be too old.
    async fn answer_press(&self, press: &Press, told: Option<&str>) -> Result<(), ListenError>;

    /// Whether a list of whom the owner lets in without a code names an account: by its id, or as whatever
    /// else the platform knows it by; `*` is everybody.
    ///
    /// # Errors
    /// The platform had to be asked, and did not answer.
    async fn lists(&self, listed: &[String], id: &str) -> Result<bool, ListenError> {
        Ok(is_named(listed, id))
    }

    /// Leaves a chat of several people.
    ///
    /// # Errors
    /// The platform did not take it.
    async fn leave(&self, chat: &str) -> Result<(), ListenError>;

    /// Deletes what somebody wrote in the chat with them alone. One that is gone already is deleted.
    ///
    /// # Errors
    /// It is still there. Most platforms let nobody delete what another wrote.
    async fn delete(&self, _written: &Written) -> Result<(), ListenError> {
        Err(ListenError::Lasting {
            reason: "this platform lets nobody delete what another wrote".to_owned(),
            remedy: "whoever wrote it can delete it".to_owned(),
        })
    }

    /// A file that came with a message, as it is read.
    ///
    /// # Errors
    /// The platform does not give it.
    async fn fetch(
        &self,
        file: &RemoteFile,
    ) -> Result<BoxStream<'static, io::Result<Bytes>>, FetchError>;
}

/// Whether a list holds an id, or `*`, which is everybody.
pub fn is_named(listed: &[String], id: &str) -> bool {
    listed.iter().any(|listed| listed == "*" || listed == id)
}

/// Why a listener ended.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// It may be over by itself; after a time, where one was named.
    #[error("{reason}")]
    Passing { reason: String, after: Option<Duration> },
    /// Somebody has to do something.
    #[error("{reason}; {remedy}")]
    Lasting { reason: String, remedy: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a file was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the platform did not give the file: {reason}")]
    Passing { reason: String },
    #[error("the platform gives this file to nobody: {reason}")]
    Lasting { reason: String },
}

/// What happened on a platform.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    Wrote(Box<Written>),
    Pressed(Press),
    /// A chat has another id now.
    Moved {
        from: String,
        to: String,
    },
    /// We were brought into a chat of several people.
    Joined {
        chat: Chat,
    },
    /// Somebody lets us write to them again, or does not.
    Reach {
        chat: String,
        may: bool,
    },
    Nothing,
}

/// An account on a platform, as it says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// What its holder cannot change.
    pub id: String,
    /// How it is shown; anybody may take any name.
    pub name: String,
    /// BCP 47, where the platform tells.
    pub language: Option<String>,
}

/// A message that somebody wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Tells a repeat: unique for the account, and another one for each edit.
    pub key: String,
    pub from: Writer,
    pub chat: Chat,
    /// Where a reply to it goes.
    pub reply: Address,
    /// Markdown.
    pub text: String,
    /// Who wrote first what is only passed on here: it is no word of the writer's.
    pub forwarded: Option<String>,
    /// What it answers, by whom.
    pub quoted: Option<Quoted>,
    pub files: Vec<RemoteFile>,
    /// Messages with the same name are one, with many files.
    pub album: Option<String>,
    /// The key of the message that it changes; none of a new one.
    pub edits: Option<String>,
    /// It is to be gone so long after it was read.
    pub vanishes_after: Option<Duration>,
    pub written_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted {
    pub by: String,
    pub text: String,
}

/// A file that the platform still has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// The platform's own name for it.
    pub handle: String,
    pub name: String,
    pub media_type: String,
    /// Bytes, where they are known before it is fetched.
    pub size: Option<u64>,
}

/// Somebody pressed a button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Press {
    /// What the platform is answered with.
    pub id: String,
    pub from: Writer,
    pub chat: Option<Chat>,
    /// What stood on the button, which anybody can send: nothing is believed of it.
    pub code: String,
}
