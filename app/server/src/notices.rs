//! What the installation tells its owner by itself, in the owner's main conversation, and where the owner
//! is at home: on a chat channel, else wherever that conversation is delivered to.
//!
//! The words are the installation's own: its turn is leased as it is stored, and a model that says
//! nothing else takes the place of the one that is configured, which may well be what is broken. What
//! somebody says meanwhile does not join the turn, but begins one behind it. Where the conversation is at
//! work, or this process dies on the way, a worker takes the turn up with the configured model, which
//! reads what to pass on.

use famulus_agent::Driver;
use famulus_channels::http::entry;
use famulus_core::{
    ids::TurnId,
    inbound::{Address, Inbound, Meeting, Source},
    message::{Part, Provenance},
    model::{Model, ModelEvent, ModelReply, ModelRequest, ModelStream, Usage},
    person::Person,
    sent::{Sent, inbound},
};
use famulus_store::{MAIN_AGENT, Store};
use futures::{StreamExt, stream};
use sha2::{Digest, Sha256};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio_util::sync::CancellationToken;

/// Who writes to the owner.
#[derive(Clone)]
pub struct Notices {
    pub(crate) store: Store,
    pub(crate) driver: Driver,
    pub(crate) owner: Person,
    /// Channels on which somebody may be at home.
    pub(crate) chats: Vec<String>,
}

impl Notices {
    /// Tells the owner something, once for each `key`, also after a restart.
    ///
    /// # Errors
    /// The database failed; nothing was said, or a worker says it.
    pub async fn tell(&self, key: &str, words: &str) -> anyhow::Result<()> {
        let home = self.store.home_of(self.owner.id, &self.chats).await?;
        let (_, lease) = self.store.accept_leased(self.inbound(key, words, home)).await?;
        // It was told before, or is told after what the conversation is at.
        let Some(lease) = lease else { return Ok(()) };
        let says = Arc::new(Says { words: words.to_owned(), said: AtomicBool::new(false) });
        let driver = Driver { model: says, ..self.driver.clone() };
        let never = CancellationToken::new();
        let driven = driver.drive(&lease.fence, TurnId(lease.job.id), &never, &never).await;
        self.store.go_on_behind();
        driven?;
        Ok(())
    }

    fn inbound(&self, key: &str, words: &str, home: Option<Address>) -> Inbound {
        let sent = Sent {
            text: format!("Pass this on to the owner, with what can be done about it:\n{words}"),
            attachments: Vec::new(),
            sender: None,
            source: Source::Agent(MAIN_AGENT),
            conversation: None,
            agent: MAIN_AGENT,
            key: Some(format!("notice {key}")),
            meeting: Meeting::Queue,
            continues: None,
        };
        let entry = entry(&self.owner);
        Inbound {
            // Told once, wherever the owner was at home then.
            keyed_by: Some(entry.reply.clone()),
            reply: home.unwrap_or_else(|| entry.reply.clone()),
            provenance: Provenance::System,
            sender: "the installation".to_owned(),
            // What is said of the same thing later may be worded otherwise.
            body_hash: Sha256::digest(key).into(),
            ..inbound(&self.owner, entry, sent, self.driver.clock.now())
        }
    }
}

/// A model that says one thing, once: a title is asked of the one that is configured.
struct Says {
    words: String,
    said: AtomicBool,
}

impl Model for Says {
    fn provider(&self) -> &'static str {
        "famulus"
    }

    fn ask(&self, _request: ModelRequest) -> ModelStream {
        if self.said.swap(true, Ordering::Relaxed) {
            return stream::empty().boxed();
        }
        let reply = ModelReply {
            model: "famulus".to_owned(),
            parts: vec![Part::assistant_text(self.words.clone())],
            blocks: None,
            usage: Usage::default(),
        };
        let events =
            [Ok(ModelEvent::Text(self.words.clone())), Ok(ModelEvent::Done(Box::new(reply)))];
        stream::iter(events).boxed()
    }
}
