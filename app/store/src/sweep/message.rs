//! What a slot says when it fires: the message that begins its turn.

use super::Due;
use famulus_core::{
    inbound::{Address, ChatKind, Inbound, Meeting, Source, Target},
    message::Provenance,
};
use jiff::{Timestamp, tz::TimeZone};
use sha2::{Digest, Sha256};

/// The channel of a reply that is kept in the conversation and delivered nowhere.
pub(crate) const NOWHERE: &str = "none";

/// The address of a reply that nobody is told: it stands in its conversation. `chat` says what it
/// answers.
pub fn nowhere(chat: String) -> Address {
    Address {
        channel: NOWHERE.to_owned(),
        account: String::new(),
        chat,
        thread: None,
        reply_to: None,
    }
}

pub(super) fn inbound(due: &Due, at: Timestamp, now: Timestamp) -> Inbound {
    let text = instruction(due, at);
    Inbound {
        source: Source::Schedule(due.id),
        person: due.person,
        host: due.host,
        sender: "schedule".to_owned(),
        time_zone: due.person_zone.clone(),
        agent: due.agent,
        target: Target::Existing(due.conversation),
        // The slot itself is what happens once.
        external_id: None,
        keyed_by: None,
        body_hash: Sha256::digest(text.as_bytes()).into(),
        reply: due.origin.clone().unwrap_or_else(|| nowhere(due.id.to_string())),
        chat: ChatKind::Direct,
        // The model reads the present time above the text, which names the slot.
        sent_at: None,
        arrived_at: now,
        text,
        attachments: Vec::new(),
        provenance: Provenance::System,
        meeting: Meeting::Queue,
    }
}

/// What the model reads when a slot fires.
fn instruction(due: &Due, at: Timestamp) -> String {
    let Due { id, name, note, zone, .. } = due;
    let name = name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let tz = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    format!(
        "Schedule {id}{name} is due. Its slot: {} ({zone}).\nIts note: {note}\n\n\
         Do now what the note says. Do not make another schedule for it: this one exists, and \
         comes again by its own rule.",
        at.to_zoned(tz).strftime("%a %Y-%m-%d %H:%M %:z"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::ids::{AgentId, ConversationId, PersonId, ScheduleId};
    use uuid::Uuid;

    #[test]
    fn the_instruction_names_the_slot_in_the_schedules_zone() {
        let due = Due {
            id: ScheduleId(Uuid::nil()),
            person: PersonId(Uuid::nil()),
            host: PersonId(Uuid::nil()),
            agent: AgentId(Uuid::nil()),
            conversation: ConversationId(Uuid::nil()),
            name: Some("Garden".to_owned()),
            note: "water the plants".to_owned(),
            zone: "Europe/Berlin".to_owned(),
            person_zone: "Asia/Kathmandu".to_owned(),
            origin: None,
        };
        let at = "2026-11-21T08:00:00Z".parse().unwrap();
        let text = instruction(&due, at);
        assert!(text.contains("Sat 2026-11-21 09:00 +01:00 (Europe/Berlin)"), "{text}");
        let named = format!("Schedule {} (Garden) is due.", due.id);
        assert!(text.starts_with(&named) && text.contains("water the plants"), "{text}");
        let nameless = instruction(&Due { name: None, ..due }, at);
        assert!(nameless.contains("00000000 is due."), "{nameless}");
    }
}
