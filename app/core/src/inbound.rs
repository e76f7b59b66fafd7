//! What comes in: one shape for every channel, schedule, callback and caller.

use crate::blob::BlobRef;
use crate::configure::{self, Assignment};
use crate::ids::{AgentId, ConversationId, PersonId, ScheduleId};
use crate::message::Provenance;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Where a message came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Source {
    Http,
    Cli,
    /// A chat channel, by its name.
    Channel(String),
    Schedule(ScheduleId),
    /// The late result of a call, by its key.
    Callback(String),
    Upload,
    /// `plugin/tool`.
    Plugin(String),
    Agent(AgentId),
}

impl Source {
    /// The word that the model reads behind `Source:`.
    pub fn label(&self) -> String {
        match self {
            Self::Http => "http".into(),
            Self::Cli => "cli".into(),
            Self::Channel(name) => name.clone(),
            Self::Schedule(_) => "schedule".into(),
            Self::Callback(_) => "callback".into(),
            Self::Upload => "upload".into(),
            Self::Plugin(name) => format!("plugin:{name}"),
            Self::Agent(_) => "agent".into(),
        }
    }

    /// Whether this is the installation speaking to itself.
    pub fn is_internal(&self) -> bool {
        match self {
            Self::Schedule(_) | Self::Callback(_) | Self::Plugin(_) | Self::Agent(_) => true,
            Self::Http | Self::Cli | Self::Channel(_) | Self::Upload => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChatKind {
    Direct,
    Group,
}

/// The chat on the platform that a message was written in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chat {
    pub id: String,
    pub kind: ChatKind,
}

impl Chat {
    pub fn direct(id: impl Into<String>) -> Self {
        Self { id: id.into(), kind: ChatKind::Direct }
    }

    pub fn group(id: impl Into<String>) -> Self {
        Self { id: id.into(), kind: ChatKind::Group }
    }
}

/// Where a reply goes. It belongs to the message, never to the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Address {
    /// The channel adapter, for example `http`.
    pub channel: String,
    /// The account of ours that speaks.
    pub account: String,
    pub chat: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The platform's id of the message that is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
}

impl Address {
    /// The lane of what goes to this chat: what is sent there keeps its order, and holds up nothing else.
    pub fn lane(&self) -> Uuid {
        let mut hash = Sha256::new();
        for field in [&self.channel, &self.account, &self.chat] {
            hash.update((field.len() as u64).to_be_bytes());
            hash.update(field);
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

/// A file that came with a message; its bytes are a blob before the message is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    pub blob: BlobRef,
    /// The name that the sender gave, for display only; never a path.
    pub name: String,
}

/// How a message meets a turn that is already running in its conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Meeting {
    /// Join the running turn of the same person, or start a turn.
    #[default]
    Steer,
    /// Always start a turn of its own, after those before it.
    Queue,
}

/// A message on its way in, authenticated and addressed, before it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Inbound {
    pub source: Source,
    /// The person in whose name the turn runs.
    pub person: PersonId,
    /// The person to whom the conversation belongs: the sender of a direct message, and for a
    /// group whoever brought the assistant into it.
    pub host: PersonId,
    /// How the sender is shown to the model.
    pub sender: String,
    /// IANA name of the zone in which the model reads the time of the message.
    pub time_zone: String,
    pub agent: AgentId,
    pub target: Target,
    /// The platform's message id or the caller's idempotency key.
    pub external_id: Option<String>,
    /// Of which channel and account the key is unique, where that is not who the reply goes to.
    pub keyed_by: Option<Address>,
    /// SHA-256 of what the caller sent, to tell a repeat from a reuse of the key.
    pub body_hash: [u8; 32],
    /// Where the reply goes.
    pub reply: Address,
    pub chat: ChatKind,
    /// When the platform says it was written.
    pub sent_at: Option<Timestamp>,
    pub arrived_at: Timestamp,
    pub text: String,
    pub attachments: Vec<Attachment>,
    pub provenance: Provenance,
    pub meeting: Meeting,
}

/// The conversation that a message goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The conversation with this key, made if it is not there.
    Key(crate::conversation::ConversationKey),
    /// This conversation, which must exist and belong to the person.
    Existing(ConversationId),
}

/// What can be typed in every chat: the command, what stands behind it, and what it does.
pub const IN_CHATS: [(&str, &str, &str); 6] = [
    ("stop", "", "End what I am doing"),
    ("home", "", "Ask me and tell me things here first"),
    ("approve", " CODE", "Say yes to a question, by its code"),
    ("deny", " CODE", "Say no to a question, by its code"),
    ("configure", " PLUGIN KEY VALUE", "Give a key of a plugin its value"),
    ("help", "", "Say what can be typed here"),
];

/// Words that are obeyed before the model sees anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `/stop`: ends what runs in the conversation.
    Stop,
    /// `/approve CODE`.
    Approve(String),
    /// `/deny CODE`.
    Deny(String),
    /// `/configure PLUGIN KEY VALUE`; nothing where it is malformed.
    Configure(Option<Assignment>),
}

impl Command {
    /// Recognises a command only when it is the whole text: a sentence about `/stop` is a message.
    pub fn parse(text: &str) -> Option<Self> {
        if configure::is_configure(text) {
            return Some(Self::Configure(configure::assignment(text)));
        }
        let mut words = text.split_whitespace();
        let command = match words.next()?.to_lowercase().as_str() {
            "/stop" => Self::Stop,
            "/approve" => Self::Approve(words.next()?.to_uppercase()),
            "/deny" => Self::Deny(words.next()?.to_uppercase()),
            _ => return None,
        };
        words.next().is_none().then_some(command)
    }

    /// What a text is that came with files. None of them is obeyed, and of `/configure` nothing is kept.
    pub fn beside_files(text: &str) -> Option<Self> {
        configure::is_configure(text).then_some(Self::Configure(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_has_one_lane_and_no_two_chats_share_one() {
        let address = |channel: &str, account: &str, chat: &str| Address {
            channel: channel.into(),
            account: account.into(),
            chat: chat.into(),
            thread: None,
            reply_to: None,
        };
        let lane = address("telegram", "1", "23").lane();
        let topic = Address { thread: Some("4".into()), ..address("telegram", "1", "23") };
        assert_eq!(topic.lane(), lane, "a platform limits chats, whatever their threads");
        // A later release must find the lanes of this one.
        assert_eq!(lane.to_string(), "6d65ca6b-de35-8358-a9d7-69783636c27c");
        for other in [
            address("telegram", "12", "3"),
            address("telegram1", "", "23"),
            address("x", "1", "23"),
        ] {
            assert_ne!(other.lane(), lane);
        }
    }

    #[test]
    fn only_an_exact_command_is_a_command() {
        let check = |text, expected| assert_eq!(Command::parse(text), expected, "{text}");
        check("/stop", Some(Command::Stop));
        check("  /STOP \n", Some(Command::Stop));
        check("/stop now", None);
        check("please /stop", None);
        check("/approve ab12", Some(Command::Approve("AB12".into())));
        check("/approve", None);
        check("/approve ab12 thanks", None);
        check("/deny x", Some(Command::Deny("X".into())));
        check("", None);
    }

    #[test]
    fn whatever_begins_with_configure_is_one_and_never_a_message() {
        let check = |text, is_whole| {
            let Some(Command::Configure(assigned)) = Command::parse(text) else {
                panic!("it would be kept: {text}")
            };
            assert_eq!(assigned.is_some(), is_whole, "{text}");
            assert_eq!(Command::beside_files(text), Some(Command::Configure(None)), "{text}");
        };
        check("/configure weather api_key a value", true);
        check("/Configure weather", false);
        assert_eq!(Command::beside_files("/stop"), None);
        assert_eq!(Command::beside_files("look at this"), None);
    }
}
