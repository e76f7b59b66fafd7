//! Receiving, from what somebody sent to what became of it.

use crate::{File, Outcome, ReceiveError};
use famulus_core::{
    Clock,
    accept::{Accept, AcceptError, Accepted},
    approval::Approvals,
    blob::Blobs,
    conversation::Conversations,
    event::{List, Viewers},
    ids::ConversationId,
    inbound::{Command, Inbound},
    person::Caller,
    plugin::ManagedPlugins,
    sent::{Entry, Sent, inbound},
};
use famulus_lifecycle::boxed;
use std::sync::Arc;

/// What whoever sent a message is told when it joined a running turn.
pub const STEERED: &str = "Noted: the turn that is running takes this in. Its reply answers both.";

/// What reception asks of the store.
pub trait Desk: Accept + Approvals + Blobs + Conversations {}

impl<T: Accept + Approvals + Blobs + Conversations> Desk for T {}

/// Where messages are received, whatever door they come through.
#[derive(Clone)]
pub struct Reception {
    pub desk: Arc<dyn Desk>,
    pub viewers: Arc<dyn Viewers>,
    pub clock: Arc<dyn Clock>,
    /// Who sees to plugins.
    pub managed: Arc<dyn ManagedPlugins>,
}

/// What became of something that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// It was a command, and is done; it is not kept.
    Obeyed {
        conversation: ConversationId,
        outcome: Outcome,
    },
    Accepted(Accepted),
}

impl Reception {
    /// Obeys a command, or stores a message with its files: when this returns it is safe.
    ///
    /// # Errors
    /// Nothing was accepted; the same may be sent again.
    pub async fn receive(
        &self,
        caller: &Caller,
        entry: Entry,
        mut sent: Sent,
        files: Vec<File<'_>>,
    ) -> Result<Received, ReceiveError> {
        let command = if files.is_empty() && sent.attachments.is_empty() {
            Command::parse(&sent.text)
        } else {
            Command::beside_files(&sent.text)
        };
        if let Some(command) = command {
            let Sent { agent, conversation, .. } = sent;
            let (conversation, outcome) =
                self.obey(caller, &entry, agent, conversation, command).await?;
            return Ok(Received::Obeyed { conversation, outcome });
        }
        for file in files {
            sent.attachments.push(self.attachment(caller.person.id, file).await?);
        }
        Ok(Received::Accepted(self.accept(caller, entry, sent).await?))
    }

    /// Stores what is known to be a message.
    ///
    /// # Errors
    /// Nothing was stored; the same may be sent again.
    #[boxed]
    pub async fn accept(
        &self,
        caller: &Caller,
        entry: Entry,
        sent: Sent,
    ) -> Result<Accepted, AcceptError> {
        self.take(inbound(&caller.person, entry, sent, self.clock.now())).await
    }

    /// Stores what was addressed already, and tells the viewers of its person.
    ///
    /// # Errors
    /// Nothing was stored; the same may be sent again.
    #[boxed]
    pub async fn take(&self, inbound: Inbound) -> Result<Accepted, AcceptError> {
        let person = inbound.person;
        let accepted = self.desk.accept(inbound).await?;
        self.viewers.list_changed(person, List::Messages);
        Ok(accepted)
    }
}
