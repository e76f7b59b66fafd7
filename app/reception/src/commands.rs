//! Commands: messages that are obeyed before anything is queued, and never kept.

use crate::{ReceiveError, Reception, words};
use famulus_core::{
    approval::{Approval, ApprovalState, Decide, Decided},
    conversation::NewConversation,
    event::List,
    ids::{AgentId, ConversationId},
    inbound::Command,
    person::Caller,
    sent::Entry,
    turn::STOPPED,
};
use famulus_lifecycle::boxed;
use std::fmt;

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Stopped,
    NothingRan,
    Decided {
        yes: bool,
        approval: Box<Approval>,
    },
    /// The question had been answered, or its time had run out.
    Closed(ApprovalState),
    NoQuestion,
    /// The key of the plugin has a value now.
    Configured {
        plugin: String,
        key: String,
    },
    /// The key was not set, and why.
    NotConfigured(String),
    /// It was no `/configure PLUGIN KEY VALUE`.
    Malformed,
    /// Keys are set by the owner alone.
    NotTheOwners,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str(STOPPED),
            Self::NothingRan => f.write_str("Nothing was running."),
            Self::Decided { yes: true, approval } => write!(f, "Approved: {}", approval.summary),
            Self::Decided { yes: false, approval } => write!(f, "Denied: {}", approval.summary),
            Self::Closed(state) => write!(f, "Too late: it is {}.", state.word()),
            Self::NoQuestion => f.write_str("There is no question with this code."),
            Self::Configured { plugin, key } => write!(f, "`{key}` of `{plugin}` is set."),
            Self::NotConfigured(why) => write!(f, "Nothing was set: {why}."),
            Self::Malformed => f.write_str(words::MALFORMED),
            Self::NotTheOwners => f.write_str(words::NOT_THE_OWNERS),
        }
    }
}

impl Reception {
    pub(crate) async fn obey(
        &self,
        caller: &Caller,
        entry: &Entry,
        agent: AgentId,
        conversation: Option<ConversationId>,
        command: Command,
    ) -> Result<(ConversationId, Outcome), ReceiveError> {
        let person = &caller.person;
        let id = match conversation {
            Some(id) if self.desk.has(person.id, id).await? => id,
            Some(id) => return Err(ReceiveError::NoConversation { id }),
            None => {
                let key = entry.key(person, agent);
                self.desk.open(person.id, NewConversation { agent, key, title: None }).await?
            }
        };
        let outcome = match command {
            Command::Stop => {
                let stopped = self.desk.stop(person.id, None, id).await?;
                if stopped.is_empty() { Outcome::NothingRan } else { Outcome::Stopped }
            }
            Command::Approve(code) => self.answer(caller, code, true).await?,
            Command::Deny(code) => self.answer(caller, code, false).await?,
            Command::Configure(asked) => self.configure(caller, asked).await?,
        };
        Ok((id, outcome))
    }

    async fn answer(
        &self,
        caller: &Caller,
        code: String,
        yes: bool,
    ) -> Result<Outcome, ReceiveError> {
        match self.decide(caller, &Decide::Code(code), yes, "command").await? {
            Decided::Done(approval) => Ok(Outcome::Decided { yes, approval: Box::new(approval) }),
            Decided::NotTheirs(approval) => Err(ReceiveError::NotTheirs(Box::new(approval))),
            Decided::Closed(state) => Ok(Outcome::Closed(state)),
            Decided::Missing => Ok(Outcome::NoQuestion),
        }
    }

    /// Answers a question, and tells the viewers of who answered and of whom it was about.
    ///
    /// # Errors
    /// The database did not answer.
    #[boxed]
    pub async fn decide(
        &self,
        caller: &Caller,
        which: &Decide,
        yes: bool,
        via: &str,
    ) -> Result<Decided, ReceiveError> {
        let decided = self.desk.decide(caller, which, yes, via).await?;
        if let Decided::Done(approval) = &decided {
            for person in [caller.person.id, approval.person] {
                self.viewers.list_changed(person, List::Approvals);
            }
        }
        Ok(decided)
    }
}
