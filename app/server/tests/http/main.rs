//! What a caller sees over HTTP, with everything behind it real but the model: an assistant on a
//! fresh database, started in this process or as a child where the process matters.
//!
//! | module | what holds |
//! |---|---|
//! | `provider` | the same conversation over a provider's wire, on good days and bad ones |
//! | `conversation` | keys of callers, titles, headings, usage |
//! | `steering` | what a second message does to a turn that runs, and how one is stopped |
//! | `unread` | what joins a turn that fails or is stopped is answered all the same, or ended in words |
//! | `approvals` | a yes is good once, for one call, from the owner, in time |
//! | `asked` | who is asked, who sees the question and who may refuse it |
//! | `agents` | what an agent was not granted it cannot do, and every turn comes to an end |
//! | `rights` | no tool changes what anybody may do |
//! | `people` | nobody reaches what is somebody else's |
//! | `configure` | a value that is given in a chat stands nowhere but with the plugin |
//! | `hostile` | clients that send too much, or too often, and a full disk |
//! | `refused` | who is refused before the body is read hears why |
//! | `room` | how many bodies are held whole at once, and what becomes of the others |
//! | `viewers` | clients that do not read, or read late |
//! | `terminal` | `famulus chat` at a terminal, with its keys and its size |
//! | `schemathesis` | requests that fit the OpenAPI document are taken, and answers fit it |
//! | `plugins` | a tool of a plugin in a conversation, now and later, stopped and taken over |
//! | `reload` | a configuration that is changed under way |
//! | `replicas` | two processes on one database are one assistant |
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

mod agents;
mod approvals;
mod asked;
mod configure;
mod conversation;
mod hostile;
mod notices;
mod people;
mod plugins;
mod provider;
mod refused;
mod reload;
mod replicas;
mod rights;
mod room;
mod schemathesis;
mod signal;
mod steering;
mod telegram;
mod terminal;
mod unread;
mod viewers;
mod voices;
mod world;
