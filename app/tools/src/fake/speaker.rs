//! Somebody who says words: the recording is the words.

use async_trait::async_trait;
use bytes::Bytes;
use famulus_core::speech::{Speaker, SpeechError, Spoken};
use futures::{StreamExt as _, stream};
use std::io;

/// Of the text `fail` nothing comes, and of `cut` a part.
pub struct FakeSpeaker;

#[async_trait]
impl Speaker for FakeSpeaker {
    fn most(&self) -> usize {
        100
    }

    async fn say(&self, text: &str) -> Result<Spoken, SpeechError> {
        if text == "fail" {
            let message = "no".to_owned();
            return Err(SpeechError::Failed { section: "speech", status: 500, message });
        }
        let mut pieces = vec![Ok(Bytes::from(text.to_owned()))];
        if text == "cut" {
            pieces.push(Err(io::Error::other("it broke")));
        }
        let bytes = stream::iter(pieces).boxed();
        Ok(Spoken { mime: "audio/ogg".to_owned(), extension: "ogg", bytes })
    }
}
