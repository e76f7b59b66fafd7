//! Requests, files and replies for the tests against the scripted server.

use async_trait::async_trait;
use bytes::Bytes;
use famulus_core::blob::{BlobError, BlobRef, Blobs};
use famulus_core::ids::{BlobId, MessageId, PersonId};
use famulus_core::message::{Message, MessageRole, Part, PartBody, Provenance};
use famulus_core::model::{Model, ModelError, ModelEvent, ModelReply, ModelRequest};
use famulus_core::tool::ToolSpec;
use famulus_models::scripted::{Scenario, Script, Scripted, Step};
use famulus_models::{Config, Models};
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::{Arc, Once};

/// Files by id, and whether the store answers.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) stored: Mutex<Vec<(BlobRef, Vec<u8>)>>,
    pub(crate) down: bool,
}

impl Files {
    pub(crate) fn add(&self, mime: &str, bytes: &[u8], size: u64) -> BlobRef {
        let blob = BlobRef { id: BlobId::new(), sha256: String::new(), mime: mime.into(), size };
        self.stored.lock().push((blob.clone(), bytes.to_vec()));
        blob
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
        Err(BlobError::Store("nothing is stored here".into()))
    }

    async fn get(
        &self,
        _: PersonId,
        id: BlobId,
    ) -> Result<(BlobRef, BoxStream<'static, Result<Bytes, BlobError>>), BlobError> {
        if self.down {
            return Err(BlobError::Store("down".into()));
        }
        let stored = self.stored.lock();
        let (blob, bytes) =
            stored.iter().find(|(b, _)| b.id == id).ok_or(BlobError::Missing { id })?;
        let pieces: Vec<_> =
            bytes.chunks(2).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        Ok((blob.clone(), stream::iter(pieces).boxed()))
    }
}

/// Clients want to know how the process speaks TLS.
pub(crate) fn installed_tls() {
    static TLS: Once = Once::new();
    TLS.call_once(|| {
        rustls::crypto::aws_lc_rs::default_provider().install_default().unwrap();
    });
}

/// A client of the server, set up by TOML lines beside its address and name.
pub(crate) fn client(server: &Scripted, extra: &str) -> Arc<dyn Model> {
    installed_tls();
    // Two messages show which part went where; whoever says otherwise in `extra` gets it.
    let parts = if extra.contains("system_prompt") { "" } else { "system_prompt = 'separate'\n" };
    let toml = format!("base_url = '{}'\nname = 'm'\n{parts}{extra}", server.base_url());
    Models::from_config(toml::from_str::<Config>(&toml).unwrap()).unwrap()
}

/// A stream of these events.
pub(crate) fn events(lines: &[&str]) -> Scenario {
    let body: String = lines.iter().flat_map(|line| ["data: ", line, "\n\n"]).collect();
    Scenario::Script(Script::events(vec![Step::Send(body.into())]))
}

pub(crate) fn tools() -> Arc<[ToolSpec]> {
    [("get_time", json!({"type": "object", "properties": {"zone": {"type": "string"}}}))]
        .into_iter()
        .chain([("manage_knowledge", json!({"type": "object"}))])
        .map(|(name, schema)| ToolSpec { name: name.into(), description: "d".into(), schema })
        .collect()
}

pub(crate) fn message(role: MessageRole, parts: Vec<Part>) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId::new(),
        seq: 0,
        role,
        person: None,
        turn: None,
        parts,
        blocks: None,
        created_at: Timestamp::UNIX_EPOCH,
    })
}

pub(crate) fn user(text: &str) -> Arc<Message> {
    let body = PartBody::Text { text: text.to_owned() };
    message(MessageRole::User, vec![Part::new(body, Provenance::Owner)])
}

/// The reply as the turn loop keeps it.
pub(crate) fn kept(reply: &ModelReply) -> Arc<Message> {
    let mut message = Arc::unwrap_or_clone(message(MessageRole::Assistant, reply.parts.clone()));
    message.blocks = reply.blocks.clone();
    Arc::new(message)
}

pub(crate) fn request(messages: Vec<Arc<Message>>, tools: Arc<[ToolSpec]>) -> ModelRequest {
    ModelRequest {
        model: None,
        system: "be kind".into(),
        context: "memory: tea".into(),
        messages,
        tools,
        person: PersonId::new(),
        blobs: Arc::new(Files::default()),
    }
}

/// Everything that a call gave.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calling: Vec<String>,
    pub(crate) pings: usize,
    pub(crate) reply: Option<ModelReply>,
    pub(crate) error: Option<ModelError>,
}

pub(crate) async fn hear(model: &Arc<dyn Model>, request: ModelRequest) -> Heard {
    let mut heard = Heard::default();
    let mut events = model.ask(request);
    while let Some(event) = events.next().await {
        assert!(heard.reply.is_none() && heard.error.is_none(), "something follows the end");
        match event {
            Ok(ModelEvent::Ping) => heard.pings += 1,
            Ok(ModelEvent::Text(text)) => heard.text.push_str(&text),
            Ok(ModelEvent::Reasoning(text)) => heard.reasoning.push_str(&text),
            Ok(ModelEvent::Calling { name }) => heard.calling.push(name),
            Ok(ModelEvent::Done(reply)) => heard.reply = Some(*reply),
            Err(error) => heard.error = Some(error),
        }
    }
    heard
}

pub(crate) async fn ask(model: &Arc<dyn Model>, text: &str) -> Heard {
    hear(model, request(vec![user(text)], tools())).await
}
