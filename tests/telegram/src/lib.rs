//! A Telegram that does what a script says: the Bot API as it is spoken, bad days included.
//!
//! ```text
//! a test: people write, press, leave ─► updates ─► getUpdates of the bot
//! a test: what did the bot send? ◄─ messages ◄─ sendMessage, sendPhoto, editMessageText, ...
//! ```
//!
//! It refuses what the real one refuses, in its words: so that whoever passes here has not only spoken to a
//! peer that nods. Where the real one's conduct is not known, it is the stricter of what is reported.

mod fault;
mod files;
mod html;
mod methods;
mod parameters;
mod people;
mod server;
mod updates;
mod world;

pub use fault::Fault;
pub use html::{Entity, parse};
pub use people::{Chat, User};
pub use server::Telegram;
pub use world::{Kind, Message};
