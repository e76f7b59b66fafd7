//! A message as somebody sent it becomes an [`Inbound`], through whatever door it came. Pure.

use crate::conversation::{ConversationKey, ConversationScope, Place, conversation_key};
use crate::ids::{AgentId, ConversationId, TurnId};
use crate::inbound::{Address, Attachment, Chat, ChatKind, Inbound, Meeting, Source, Target};
use crate::message::Provenance;
use crate::person::{Person, Role};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// Characters of a sender's label that the model reads.
const SENDER_CHARS: usize = 100;

/// Where somebody writes, and where a reply to it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub reply: Address,
    pub kind: ChatKind,
}

impl Entry {
    /// The key of the conversation that belongs to what a person writes here, when they name none.
    pub fn key(&self, person: &Person, agent: AgentId) -> ConversationKey {
        self.scoped(person, agent, &self.reply.chat, None)
    }

    /// The key of a conversation that a person opens beside it; `id` makes it unique.
    pub fn own_key(&self, person: &Person, agent: AgentId, id: ConversationId) -> ConversationKey {
        self.scoped(person, agent, &id.to_string(), Some(ConversationScope::Chat))
    }

    fn scoped(
        &self,
        person: &Person,
        agent: AgentId,
        chat: &str,
        scope: Option<ConversationScope>,
    ) -> ConversationKey {
        conversation_key(&Place {
            agent,
            person: person.id,
            role: person.role,
            channel: &self.reply.channel,
            account: &self.reply.account,
            chat: &Chat { id: chat.to_owned(), kind: self.kind },
            thread: self.reply.thread.as_deref(),
            scope,
        })
    }
}

/// What somebody sent, read and with its files stored.
#[derive(Clone, Debug)]
pub struct Sent {
    pub text: String,
    pub attachments: Vec<Attachment>,
    /// Whom the sender speaks for, in the sender's own words; never an identity.
    pub sender: Option<String>,
    pub source: Source,
    /// `None` is the conversation that belongs to where it was written.
    pub conversation: Option<ConversationId>,
    pub agent: AgentId,
    /// Tells a repeat from another message: the caller's `Idempotency-Key`, the platform's id.
    pub key: Option<String>,
    pub meeting: Meeting,
    /// The turn that it asks to go on.
    pub continues: Option<TurnId>,
}

/// Addresses what a person sent.
pub fn inbound(person: &Person, entry: Entry, sent: Sent, arrived_at: Timestamp) -> Inbound {
    let body_hash = hash(&sent);
    let target = match sent.conversation {
        Some(id) => Target::Existing(id),
        None => Target::Key(entry.key(person, sent.agent)),
    };
    Inbound {
        source: sent.source,
        person: person.id,
        host: person.id,
        sender: label(person, sent.sender.as_deref()),
        time_zone: person.time_zone.clone(),
        agent: sent.agent,
        target,
        external_id: sent.key,
        keyed_by: None,
        body_hash,
        reply: entry.reply,
        chat: entry.kind,
        sent_at: None,
        arrived_at,
        text: sent.text,
        attachments: sent.attachments,
        provenance: provenance(person.role),
        meeting: sent.meeting,
    }
}

/// Who wrote a person's words.
pub fn provenance(role: Role) -> Provenance {
    match role {
        Role::Owner => Provenance::Owner,
        Role::Member => Provenance::Member,
        Role::Contact => Provenance::Contact,
    }
}

/// How the sender is shown: who the token says it is comes first, whatever the caller adds.
fn label(person: &Person, claimed: Option<&str>) -> String {
    let own = match person.role {
        Role::Owner => "owner",
        Role::Member | Role::Contact => person.name.as_str(),
    };
    match claimed.map(str::trim).filter(|claimed| !claimed.is_empty() && *claimed != own) {
        None => own.to_owned(),
        Some(claimed) => {
            let claimed: String = claimed.chars().take(SENDER_CHARS).collect();
            format!("{own} (for {claimed})")
        }
    }
}

/// Tells a repeat from another message under the same key. Every field is preceded by its length,
/// so that no two messages run together to the same bytes.
fn hash(sent: &Sent) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    field(sent.text.as_bytes());
    field(sent.source.label().as_bytes());
    field(sent.sender.as_deref().unwrap_or_default().as_bytes());
    match sent.conversation {
        Some(id) => field(id.0.as_bytes()),
        None => field(b""),
    }
    field(match sent.meeting {
        Meeting::Steer => b"steer",
        Meeting::Queue => b"queue",
    });
    if let Some(turn) = sent.continues {
        field(b"continue");
        field(turn.0.as_bytes());
    }
    for file in &sent.attachments {
        // The content and not the id: the same file sent again may be stored under another one.
        field(file.blob.sha256.as_bytes());
        field(file.blob.mime.as_bytes());
        field(file.name.as_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::BlobRef;
    use crate::ids::{BlobId, PersonId};

    fn person(role: Role) -> Person {
        Person {
            id: PersonId::new(),
            name: "Ada".into(),
            role,
            time_zone: "Europe/Berlin".into(),
            language: "en".into(),
        }
    }

    fn entry(chat: &str) -> Entry {
        let reply = Address {
            channel: "pigeon".into(),
            account: "loft".into(),
            chat: chat.into(),
            thread: None,
            reply_to: None,
        };
        Entry { reply, kind: ChatKind::Direct }
    }

    fn sent(text: &str) -> Sent {
        Sent {
            text: text.into(),
            attachments: Vec::new(),
            sender: None,
            source: Source::Http,
            conversation: None,
            agent: AgentId::new(),
            key: None,
            meeting: Meeting::Steer,
            continues: None,
        }
    }

    fn file(name: &str, sha256: &str) -> Attachment {
        let blob = BlobRef {
            id: BlobId::new(),
            sha256: sha256.into(),
            mime: "text/plain".into(),
            size: 1,
        };
        Attachment { blob, name: name.into() }
    }

    #[test]
    fn the_role_decides_label_and_provenance() {
        let check = |role, claimed: Option<&str>, label: &str, by| {
            let message = Sent { sender: claimed.map(Into::into), ..sent("hi") };
            let made = inbound(&person(role), entry("7"), message, Timestamp::UNIX_EPOCH);
            assert_eq!((made.sender.as_str(), made.provenance), (label, by));
        };
        check(Role::Owner, None, "owner", Provenance::Owner);
        check(Role::Member, None, "Ada", Provenance::Member);
        check(Role::Contact, Some("owner"), "Ada (for owner)", Provenance::Contact);
        check(Role::Owner, Some(" "), "owner", Provenance::Owner);
    }

    #[test]
    fn a_message_without_a_conversation_goes_to_the_one_of_where_it_was_written() {
        let owner = person(Role::Owner);
        let message = sent("hi");
        let agent = message.agent;
        let made = inbound(&owner, entry("7"), message.clone(), Timestamp::UNIX_EPOCH);
        assert_eq!(made.target, Target::Key(entry("7").key(&owner, agent)));
        assert_eq!(made.reply, entry("7").reply);
        let id = ConversationId::new();
        let named = Sent { conversation: Some(id), ..message };
        let made = inbound(&owner, entry("7"), named, Timestamp::UNIX_EPOCH);
        assert_eq!(made.target, Target::Existing(id));
        assert_ne!(entry("7").own_key(&owner, agent, id), entry("7").key(&owner, agent));
    }

    #[test]
    fn the_owner_has_one_conversation_over_direct_chats_and_a_group_its_own() {
        let (owner, agent) = (person(Role::Owner), AgentId::new());
        let group = Entry { kind: ChatKind::Group, ..entry("7") };
        assert_eq!(entry("7").key(&owner, agent), entry("8").key(&owner, agent));
        assert_ne!(group.key(&owner, agent), entry("7").key(&owner, agent));
        assert_eq!(group.key(&owner, agent), group.key(&person(Role::Member), agent));
    }

    #[test]
    fn the_hash_covers_the_content_and_not_the_ids_of_files() {
        let base = sent("a");
        let with = |files| Sent { attachments: files, ..base.clone() };
        assert_eq!(hash(&with(vec![file("n", "1")])), hash(&with(vec![file("n", "1")])));
        let different = [
            sent("b"),
            with(vec![file("n", "1")]),
            with(vec![file("m", "1")]),
            with(vec![file("n", "2")]),
            Sent { meeting: Meeting::Queue, ..base.clone() },
            Sent { continues: Some(TurnId::new()), ..base.clone() },
            Sent { continues: Some(TurnId::new()), ..base.clone() },
            Sent { conversation: Some(ConversationId::new()), ..base.clone() },
        ];
        for (place, one) in different.iter().enumerate() {
            assert_ne!(hash(one), hash(&base), "{place}");
            for other in &different[place + 1..] {
                assert_ne!(hash(one), hash(other), "{place}");
            }
        }
    }
}
