//! An outbox in memory: whoever was written to once is known.

use async_trait::async_trait;
use famulus_core::post::{Letter, Post, PostError, Posted, Recipient, Way};
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// A channel that takes files, and one that does not.
pub fn ways() -> Vec<Way> {
    let way = |channel: &str, takes_files| Way {
        channel: channel.to_owned(),
        takes_files,
        is_reply: false,
    };
    vec![way("telegram", true), way("words", false)]
}

/// What was sent.
#[derive(Debug, Default)]
pub struct FakePost {
    pub letters: Mutex<Vec<Letter>>,
    written_to: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Post for FakePost {
    async fn post(&self, letter: &Letter) -> Result<Posted, PostError> {
        let to = match &letter.to {
            Recipient::Here(_) | Recipient::Themselves => letter.from.name.clone(),
            Recipient::Other(name) => {
                let mut written_to = self.written_to.lock();
                if !letter.may_be_first && !written_to.contains(name) {
                    return Err(PostError::First { name: name.clone() });
                }
                written_to.insert(name.clone());
                name.clone()
            }
        };
        let channel = letter.ways.first().map(|way| way.channel.clone()).unwrap_or_default();
        let mut letters = self.letters.lock();
        if !letters.iter().any(|known| known.key == letter.key) {
            letters.push(letter.clone());
        }
        Ok(Posted { channel, to })
    }
}
