//! Which conversation a message belongs to.
//!
//! One pure function decides, from where the message came and who sent it. The key is stored with
//! a unique constraint, so that two messages racing to open the same conversation open one.

use crate::StoreError;
use crate::ids::{AgentId, ConversationId, PersonId, TurnId};
use crate::inbound::{Chat, ChatKind};
use crate::person::Role;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// How messages are gathered into conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConversationScope {
    /// One conversation with the person over all channels.
    Main,
    /// One per person and channel.
    Channel,
    /// One per chat (and thread): everybody in a group shares it.
    Chat,
    /// One per person in each chat (and thread).
    ChatPerson,
}

impl ConversationScope {
    /// The scope in force when nothing is configured: the owner and members have one main
    /// conversation over all their direct chats; contacts have one per channel; a group is one.
    pub fn default_for(role: Role, kind: ChatKind) -> Self {
        match (kind, role) {
            (ChatKind::Group, _) => Self::Chat,
            (ChatKind::Direct, Role::Owner | Role::Member) => Self::Main,
            (ChatKind::Direct, Role::Contact) => Self::Channel,
        }
    }
}

/// Everything that the choice depends on.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    pub agent: AgentId,
    pub person: PersonId,
    pub role: Role,
    pub channel: &'a str,
    pub account: &'a str,
    pub chat: &'a Chat,
    pub thread: Option<&'a str>,
    /// The configured scope; `None` takes [`ConversationScope::default_for`].
    pub scope: Option<ConversationScope>,
}

/// The identity of a conversation: equal keys are the same conversation.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ConversationKey(pub String);

/// What a conversation is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewConversation {
    pub agent: AgentId,
    pub key: ConversationKey,
    pub title: Option<String>,
}

/// The conversations, as far as those who receive messages need them.
#[async_trait]
pub trait Conversations: Send + Sync + 'static {
    /// Whether the conversation is there and the person's.
    async fn has(&self, person: PersonId, id: ConversationId) -> Result<bool, StoreError>;

    /// The conversation with this key, opened now if it is not there.
    async fn open(
        &self,
        person: PersonId,
        new: NewConversation,
    ) -> Result<ConversationId, StoreError>;

    /// Asks every unfinished turn of the host in the conversation to end; which those are. `actor`
    /// narrows it to the turns that run in that person's name.
    async fn stop(
        &self,
        host: PersonId,
        actor: Option<PersonId>,
        id: ConversationId,
    ) -> Result<Vec<TurnId>, StoreError>;
}

/// Decides the conversation of a message.
///
/// A group never falls into somebody's main conversation, even when `Main` or `Channel` is
/// configured, because others would read along.
pub fn conversation_key(place: &Place<'_>) -> ConversationKey {
    let scope =
        place.scope.unwrap_or_else(|| ConversationScope::default_for(place.role, place.chat.kind));
    let scope = match (place.chat.kind, scope) {
        (ChatKind::Group, ConversationScope::Main | ConversationScope::Channel) => {
            ConversationScope::Chat
        }
        (ChatKind::Group | ChatKind::Direct, chosen) => chosen,
    };
    let mut key = format!("agent={}", place.agent);
    match scope {
        ConversationScope::Main => field(&mut key, "main", &place.person.to_string()),
        ConversationScope::Channel => {
            field(&mut key, "channel", place.channel);
            field(&mut key, "person", &place.person.to_string());
        }
        ConversationScope::Chat | ConversationScope::ChatPerson => {
            field(&mut key, "channel", place.channel);
            field(&mut key, "account", place.account);
            field(&mut key, "chat", &place.chat.id);
            if let Some(thread) = place.thread {
                field(&mut key, "thread", thread);
            }
            if scope == ConversationScope::ChatPerson {
                field(&mut key, "person", &place.person.to_string());
            }
        }
    }
    ConversationKey(key)
}

/// Appends `/name=value`; the value is escaped so that no value can imitate another field.
fn field(key: &mut String, name: &str, value: &str) {
    let escaped = value.replace('%', "%25").replace('/', "%2F").replace('=', "%3D");
    // Writing to a String cannot fail.
    let _infallible = write!(key, "/{name}={escaped}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn place<'a>(chat: &'a Chat, role: Role, channel: &'a str) -> Place<'a> {
        Place {
            agent: AgentId(Uuid::nil()),
            person: PersonId(Uuid::from_u128(7)),
            role,
            channel,
            account: "bot",
            chat,
            thread: None,
            scope: None,
        }
    }

    #[test]
    fn the_owner_has_one_main_conversation_over_all_channels() {
        let chat = Chat::direct("1");
        let a = conversation_key(&place(&chat, Role::Owner, "http"));
        let b = conversation_key(&place(&Chat::direct("2"), Role::Owner, "signal"));
        assert_eq!(a, b);
    }

    #[test]
    fn contacts_and_groups_have_their_own() {
        let chat = Chat::direct("1");
        let signal = conversation_key(&place(&chat, Role::Contact, "signal"));
        let telegram = conversation_key(&place(&chat, Role::Contact, "telegram"));
        assert_ne!(signal, telegram);
        let group = Chat::group("family");
        let owner = conversation_key(&place(&group, Role::Owner, "signal"));
        let contact = conversation_key(&place(&group, Role::Contact, "signal"));
        assert_eq!(owner, contact, "a group is one conversation for everybody in it");
        assert_ne!(owner, conversation_key(&place(&chat, Role::Owner, "signal")));
    }

    #[test]
    fn a_group_never_joins_a_main_conversation() {
        let group = Chat::group("family");
        let mut inside = place(&group, Role::Owner, "signal");
        inside.scope = Some(ConversationScope::Main);
        assert_ne!(
            conversation_key(&inside),
            conversation_key(&place(&Chat::direct("1"), Role::Owner, "signal"))
        );
    }

    #[test]
    fn threads_and_agents_separate() {
        let group = Chat::group("g");
        let base = place(&group, Role::Member, "x");
        let mut thread = base.clone();
        thread.thread = Some("t1");
        assert_ne!(conversation_key(&base), conversation_key(&thread));
        let mut other = base.clone();
        other.agent = AgentId(Uuid::from_u128(9));
        assert_ne!(conversation_key(&base), conversation_key(&other));
    }

    #[test]
    fn no_value_imitates_another_field() {
        let forged = Chat::group("g/thread=t1");
        let mut real = place(&forged, Role::Member, "x");
        let a = conversation_key(&real);
        let plain = Chat::group("g");
        real.chat = &plain;
        real.thread = Some("t1");
        assert_ne!(a, conversation_key(&real));
    }
}
