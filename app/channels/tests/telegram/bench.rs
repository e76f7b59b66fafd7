//! A scripted Telegram, the channel that speaks to it, and what both keep.

use async_trait::async_trait;
use bytes::Bytes;
use famulus_channels::telegram::{Config, Telegram as Channel};
use famulus_core::{
    StoreError,
    blob::{BlobError, BlobRef, Blobs},
    ids::{BlobId, ConversationId, OutboundId, PersonId},
    inbound::{Address, Attachment},
    intake::{Arrival, Keep},
    outbound::Outbound,
};
use famulus_scripted_telegram::{Telegram, User};
use futures::{StreamExt, stream::BoxStream};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) const TOKEN: &str = "99:a-secret-of-the-bot";

pub(crate) struct Bench {
    pub(crate) telegram: Telegram,
    pub(crate) channel: Channel,
    pub(crate) files: Arc<Files>,
    pub(crate) ada: User,
}

impl Bench {
    /// With somebody who has written to the bot.
    pub(crate) async fn new() -> Self {
        let telegram = Telegram::start(TOKEN).await.unwrap();
        let files = Arc::new(Files::default());
        let channel = channel(&telegram.base_url(), TOKEN, &files);
        let ada = User::new(7, "Ada");
        telegram.write(&ada, &ada.chat(), "/start");
        Self { telegram, channel, files, ada }
    }

    pub(crate) fn message(&self, markdown: &str) -> Outbound {
        Outbound {
            id: OutboundId::new(),
            person: Some(PersonId::new()),
            conversation: Some(ConversationId::new()),
            to: Address {
                channel: "telegram".into(),
                account: "99".into(),
                chat: self.ada.id.to_string(),
                thread: None,
                reply_to: None,
            },
            markdown: markdown.to_owned(),
            buttons: Vec::new(),
            attachments: Vec::new(),
        }
    }
}

pub(crate) fn channel(base: &str, token: &str, files: &Arc<Files>) -> Channel {
    let config = Config {
        token: Some(token.to_owned().into()),
        base_url: Some(base.parse().unwrap()),
        ..Config::default()
    };
    Channel::new(config, Arc::clone(files) as Arc<dyn Blobs>).unwrap().unwrap()
}

/// Files of ours.
#[derive(Default)]
pub(crate) struct Files(Mutex<HashMap<BlobId, (BlobRef, Bytes)>>);

impl Files {
    pub(crate) fn keep(&self, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Attachment {
        let bytes = bytes.into();
        let blob = BlobRef {
            id: BlobId::new(),
            sha256: "0".repeat(64),
            mime: mime.to_owned(),
            size: bytes.len() as u64,
        };
        self.0.lock().insert(blob.id, (blob.clone(), bytes));
        Attachment { blob, name: name.to_owned() }
    }
}

#[async_trait]
impl Blobs for Files {
    async fn put(
        &self,
        _: PersonId,
        _: &str,
        _: u64,
        _: BoxStream<'_, std::io::Result<Bytes>>,
    ) -> Result<BlobRef, BlobError> {
        panic!("a channel stores no files");
    }

    async fn get(
        &self,
        _: PersonId,
        id: BlobId,
    ) -> Result<(BlobRef, BoxStream<'static, Result<Bytes, BlobError>>), BlobError> {
        let (blob, bytes) = self.0.lock().get(&id).cloned().ok_or(BlobError::Missing { id })?;
        let pieces: Vec<_> = bytes.chunks(1000).map(Bytes::copy_from_slice).map(Ok).collect();
        Ok((blob, futures::stream::iter(pieces).boxed()))
    }
}

/// What was kept of what was heard.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) arrivals: Mutex<Vec<Arrival>>,
    pub(crate) place: Mutex<Option<String>>,
    /// The next times it fails.
    pub(crate) fails: Mutex<u32>,
}

#[async_trait]
impl Keep for Kept {
    async fn keep(&self, arrivals: Vec<Arrival>, place: &str) -> Result<(), StoreError> {
        let mut fails = self.fails.lock();
        if *fails > 0 {
            *fails -= 1;
            return Err(StoreError::Unavailable("the disk is away".into()));
        }
        self.arrivals.lock().extend(arrivals);
        *self.place.lock() = Some(place.to_owned());
        Ok(())
    }

    async fn heard(&self) {}
}
