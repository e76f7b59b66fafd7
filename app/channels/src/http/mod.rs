//! The `http` channel: callers of the API, and the webhook through which they may be called back.
//!
//! Without a webhook the conversation itself is the mailbox: whatever is sent can be read there,
//! so that sending succeeds at once.

pub mod outbound;

use famulus_core::{
    inbound::{Address, ChatKind},
    person::Person,
    sent::Entry,
};

/// The channel's name in addresses.
pub const NAME: &str = "http";

/// The account of the channel is the person, so that keys of different people never meet.
pub fn entry(person: &Person) -> Entry {
    Entry { reply: address(person), kind: ChatKind::Direct }
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
