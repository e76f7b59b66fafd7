//! The messages that are sent.

use crate::world::Place;
use famulus_core::{
    Clock,
    clock::SystemClock,
    inbound::{Address, ChatKind, Inbound, Meeting, Source, Target},
    message::Provenance,
};
use famulus_store::MAIN_AGENT;

/// As long as people's messages commonly are.
const TEXT: &str = "Could you look up when the next train to the coast leaves on Sunday, and put it \
                    on the list with the other things for the trip?";

/// A message of its person, with an id of its channel, as every chat channel has one.
pub(crate) fn message(place: &Place, number: u64) -> Inbound {
    let mut body_hash = [0; 32];
    body_hash[..8].copy_from_slice(&number.to_be_bytes());
    Inbound {
        source: Source::Http,
        person: place.person,
        host: place.person,
        sender: "somebody".to_owned(),
        time_zone: "Europe/Berlin".to_owned(),
        agent: MAIN_AGENT,
        target: Target::Key(place.key.clone()),
        external_id: Some(number.to_string()),
        keyed_by: None,
        body_hash,
        reply: Address {
            channel: "http".to_owned(),
            account: place.person.to_string(),
            chat: place.conversation.to_string(),
            thread: None,
            reply_to: None,
        },
        chat: ChatKind::Direct,
        sent_at: None,
        arrived_at: SystemClock.now(),
        text: TEXT.to_owned(),
        attachments: Vec::new(),
        provenance: Provenance::Member,
        meeting: Meeting::Queue,
    }
}
