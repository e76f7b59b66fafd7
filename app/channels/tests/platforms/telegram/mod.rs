//! The channel against a scripted Telegram that speaks the real wire, bad days included.

mod answers;
mod bench;
mod hearing;
mod rendering;
mod sending;
