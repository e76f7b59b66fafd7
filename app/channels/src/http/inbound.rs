//! A caller's message becomes core's [`Inbound`]. Pure.

use crate::http::NAME;
use famulus_core::{
    conversation::{ConversationKey, ConversationScope, Place, conversation_key},
    ids::{AgentId, ConversationId, TurnId},
    inbound::{Address, Attachment, Chat, ChatKind, Inbound, Meeting, Source, Target},
    message::Provenance,
    person::{Caller, Person, Role},
};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// Characters of a sender's label that the model reads.
const SENDER_CHARS: usize = 100;

/// What a caller sent, parsed.
#[derive(Clone, Debug)]
pub struct Sent {
    pub text: String,
    pub attachments: Vec<Attachment>,
    /// Whom the caller speaks for, in the caller's own words; never an identity.
    pub sender: Option<String>,
    pub source: Source,
    /// `None` is the person's main conversation with the agent.
    pub conversation: Option<ConversationId>,
    pub agent: AgentId,
    /// The caller's `Idempotency-Key`.
    pub key: Option<String>,
    pub meeting: Meeting,
    /// The turn that it asks to go on.
    pub continues: Option<TurnId>,
}

/// Addresses a caller's message.
///
/// The account of the channel is the person, so that keys of different people never meet.
pub fn inbound(caller: &Caller, sent: Sent, arrived_at: Timestamp) -> Inbound {
    let person = &caller.person;
    let body_hash = hash(&sent);
    let target = match sent.conversation {
        Some(id) => Target::Existing(id),
        None => Target::Key(main_key(person, sent.agent)),
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
        body_hash,
        reply: address(person),
        chat: ChatKind::Direct,
        sent_at: None,
        arrived_at,
        text: sent.text,
        attachments: sent.attachments,
        provenance: provenance(person.role),
        meeting: sent.meeting,
    }
}

/// The key of the conversation that a person's messages go to when they name none.
pub fn main_key(person: &Person, agent: AgentId) -> ConversationKey {
    key(person, agent, &person.id.to_string(), None)
}

/// The key of a conversation that a person opens beside the main one; `id` makes it unique.
pub fn own_key(person: &Person, agent: AgentId, id: ConversationId) -> ConversationKey {
    key(person, agent, &id.to_string(), Some(ConversationScope::Chat))
}

fn key(
    person: &Person,
    agent: AgentId,
    chat: &str,
    scope: Option<ConversationScope>,
) -> ConversationKey {
    let account = person.id.to_string();
    conversation_key(&Place {
        agent,
        person: person.id,
        role: person.role,
        channel: NAME,
        account: &account,
        chat: &Chat::direct(chat),
        thread: None,
        scope,
    })
}

/// Where a reply to this person goes on this channel.
pub fn address(person: &Person) -> Address {
    let id = person.id.to_string();
    Address {
        channel: NAME.to_owned(),
        account: id.clone(),
        chat: id,
        thread: None,
        reply_to: None,
    }
}

/// Who wrote a caller's words.
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
    use famulus_core::{
        blob::BlobRef,
        ids::{BlobId, PersonId, TokenId},
        person::Scope,
    };

    fn caller(role: Role) -> Caller {
        Caller {
            person: Person {
                id: PersonId::new(),
                name: "Ada".into(),
                role,
                time_zone: "Europe/Berlin".into(),
                language: "en".into(),
            },
            token: TokenId::new(),
            scope: Scope::Chat,
        }
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
            let made = inbound(&caller(role), message, Timestamp::UNIX_EPOCH);
            assert_eq!((made.sender.as_str(), made.provenance), (label, by));
        };
        check(Role::Owner, None, "owner", Provenance::Owner);
        check(Role::Member, None, "Ada", Provenance::Member);
        check(Role::Contact, Some("owner"), "Ada (for owner)", Provenance::Contact);
        check(Role::Owner, Some(" "), "owner", Provenance::Owner);
    }

    #[test]
    fn a_message_without_a_conversation_goes_to_the_main_one() {
        let caller = caller(Role::Owner);
        let message = sent("hi");
        let agent = message.agent;
        let made = inbound(&caller, message.clone(), Timestamp::UNIX_EPOCH);
        assert_eq!(made.target, Target::Key(main_key(&caller.person, agent)));
        assert_eq!(made.reply.account, caller.person.id.to_string());
        let id = ConversationId::new();
        let named = Sent { conversation: Some(id), ..message };
        let made = inbound(&caller, named, Timestamp::UNIX_EPOCH);
        assert_eq!(made.target, Target::Existing(id));
        assert_ne!(own_key(&caller.person, agent, id), main_key(&caller.person, agent));
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
