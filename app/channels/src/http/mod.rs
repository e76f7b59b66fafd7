//! The `http` channel: callers of the API, and the webhook through which they may be called back.
//!
//! Without a webhook the conversation itself is the mailbox: whatever is sent can be read there,
//! so that sending succeeds at once.

pub mod inbound;
pub mod outbound;

/// The channel's name in addresses.
pub const NAME: &str = "http";
