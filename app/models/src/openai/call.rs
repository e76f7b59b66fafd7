//! One call: the request goes out, its answer is read piece by piece.

use super::chunk::Chunk;
use super::history::{self, Entry};
use super::inline::{AcceptedCalls, Extractor};
use super::reply::{Assembler, ReplyFormat};
use super::{Provider, body, files};
use crate::config::{SystemPrompt, ToolDialect};
use crate::endpoint::shown;
use crate::failure;
use famulus_core::model::{ModelError, ModelEvent, ModelRequest};
use famulus_core::tool::ToolSpec;
use famulus_sse::{Caps, Item, Parser};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long a server may hold the line once its answer is whole: only the usage is still wanted.
const AFTER_FINISH: Duration = Duration::from_secs(2);
/// How long the end of the body is awaited behind the last event: a connection that was read to
/// its end can be used again, and the end mostly stands in the same packet.
const FOR_REUSE: Duration = Duration::from_millis(20);
/// A server that sends longer lines or events than 1 MiB is not one that streams.
const CAPS: Caps = Caps { line: 1 << 20, event: 1 << 20 };
/// Bytes of an answer that comes whole instead of as a stream.
const WHOLE_CAP: usize = 8 << 20;

const XML_TOOLS: &str = include_str!("../../prompts/xml_tools.md");

pub(crate) struct Call {
    provider: Arc<Provider>,
    phase: Phase,
    /// Read, not yet given out; at most what one piece of the body holds.
    ready: VecDeque<ModelEvent>,
}

enum Phase {
    Begin(Box<ModelRequest>),
    Reading(Box<Reading>),
    Over,
}

struct Reading {
    response: reqwest::Response,
    form: BodyFormat,
    assembler: Assembler,
}

enum BodyFormat {
    Stream(Parser),
    /// The server ignored the wish for a stream.
    Whole(Vec<u8>),
}

/// Whether more of the answer is to be read.
enum Progress {
    More(Box<Reading>),
    Complete,
}

impl Call {
    pub(crate) fn new(provider: Arc<Provider>, request: ModelRequest) -> Self {
        Self { provider, phase: Phase::Begin(Box::new(request)), ready: VecDeque::new() }
    }

    /// The next event; `None` once the whole reply was given out.
    pub(crate) async fn next(&mut self) -> Result<Option<ModelEvent>, ModelError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Begin(request) => {
                    let reading = begin(&self.provider, *request).await?;
                    self.phase = Phase::Reading(Box::new(reading));
                }
                Phase::Reading(reading) => match reading.more(&mut self.ready).await? {
                    Progress::More(reading) => self.phase = Phase::Reading(reading),
                    Progress::Complete => {}
                },
                Phase::Over => return Ok(None),
            }
        }
    }
}

async fn begin(provider: &Provider, request: ModelRequest) -> Result<Reading, ModelError> {
    let model = request.model.clone().unwrap_or_else(|| provider.model.clone());
    let bytes = encode(provider, &model, &request).await?;
    let response = provider
        .endpoint
        .post(provider.url.clone(), "text/event-stream")
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .body(bytes)
        .send()
        .await
        .map_err(|error| ModelError::Unreachable {
            url: shown(&provider.url),
            source: Box::new(error.without_url()),
        })?;
    if !response.status().is_success() {
        return Err(failure::of_response(response, provider.endpoint.key.as_ref()).await);
    }
    let form = form(&response)?;
    let assembler = assembler(provider, model, &request.tools);
    Ok(Reading { response, form, assembler })
}

async fn encode(
    provider: &Provider,
    model: &str,
    request: &ModelRequest,
) -> Result<Vec<u8>, ModelError> {
    let xml = provider.shape.dialect == ToolDialect::Xml;
    let system = if xml && !request.tools.is_empty() {
        format!("{}\n\n{XML_TOOLS}{}", request.system, described(&request.tools))
    } else {
        request.system.clone()
    };
    let parts = [system, request.context.clone()].into_iter().filter(|part| !part.is_empty());
    let mut entries: Vec<Entry> = match provider.system_prompt {
        SystemPrompt::Separate => parts.map(Entry::System).collect(),
        SystemPrompt::Joined => {
            let joined = parts.collect::<Vec<_>>().join("\n\n");
            if joined.is_empty() { Vec::new() } else { vec![Entry::System(joined)] }
        }
    };
    let mut history = history::entries(&request.messages, &provider.shape);
    let loaded = files::load(&mut history, request.blobs.as_ref(), request.person).await?;
    entries.append(&mut history);
    let tools: &[ToolSpec] = if xml { &[] } else { &request.tools };
    body::encode(model, &entries, tools, &loaded).map_err(|error| ModelError::Rejected {
        status: 400,
        message: format!("the request could not be written: {error}"),
    })
}

/// One JSON object per line.
fn described(tools: &[ToolSpec]) -> String {
    let lines: Vec<String> =
        tools.iter().filter_map(|tool| serde_json::to_string(tool).ok()).collect();
    lines.join("\n")
}

fn assembler(provider: &Provider, model: String, tools: &Arc<[ToolSpec]>) -> Assembler {
    let xml = provider.shape.dialect == ToolDialect::Xml;
    let extractor = match provider.shape.dialect {
        ToolDialect::Native => None,
        // Without tools the model must answer in text, and whatever it writes is text.
        ToolDialect::Auto | ToolDialect::Xml if tools.is_empty() => None,
        ToolDialect::Auto => Some(Extractor::new(Arc::clone(tools), AcceptedCalls::Offered)),
        ToolDialect::Xml => Some(Extractor::new(Arc::clone(tools), AcceptedCalls::All)),
    };
    let [_, vendor_label] = provider.shape.labels.clone();
    let label = if xml { super::PROVIDER_XML } else { super::PROVIDER };
    Assembler::new(model, ReplyFormat { label, vendor_label, calls_in_text: xml }, extractor)
}

fn form(response: &reqwest::Response) -> Result<BodyFormat, ModelError> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    if kind.starts_with("application/json") {
        Ok(BodyFormat::Whole(Vec::new()))
    } else if kind.starts_with("text/html") {
        Err(ModelError::Rejected {
            status: response.status().as_u16(),
            message: "it answered with a web page; check that `model.base_url` is the address of the API, often one that ends in /v1".to_owned(),
        })
    } else {
        Ok(BodyFormat::Stream(Parser::new(CAPS)))
    }
}

impl Reading {
    /// Reads one piece of the body.
    async fn more(
        mut self: Box<Self>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<Progress, ModelError> {
        let piece = if self.assembler.is_finished() {
            match tokio::time::timeout(AFTER_FINISH, self.response.chunk()).await {
                Ok(piece) => piece,
                Err(_) => return self.complete(events),
            }
        } else {
            self.response.chunk().await
        };
        match piece {
            Ok(Some(bytes)) => {
                if self.take(&bytes, events)? {
                    // Whatever comes, or does not, the answer is whole.
                    let _end = tokio::time::timeout(FOR_REUSE, self.response.chunk()).await;
                    return self.complete(events);
                }
                Ok(Progress::More(self))
            }
            Ok(None) => {
                if self.end(events)? {
                    self.complete(events)
                } else {
                    Err(ModelError::Cut)
                }
            }
            // A broken connection behind the end takes nothing away.
            Err(_) if self.assembler.is_finished() => self.complete(events),
            Err(error) => {
                tracing::debug!(error = %error.without_url(), "the model's stream broke off");
                Err(ModelError::Cut)
            }
        }
    }

    fn complete(self, events: &mut VecDeque<ModelEvent>) -> Result<Progress, ModelError> {
        self.assembler.done(events)?;
        Ok(Progress::Complete)
    }

    /// Takes a piece; whether the server said that nothing follows.
    fn take(
        &mut self,
        bytes: &[u8],
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<bool, ModelError> {
        match &mut self.form {
            BodyFormat::Stream(parser) => {
                let mut items = Vec::new();
                parser.feed(bytes, &mut items).map_err(|_| too_long())?;
                self.items(items, events)
            }
            BodyFormat::Whole(body) if body.len() + bytes.len() > WHOLE_CAP => Err(too_long()),
            BodyFormat::Whole(body) => {
                body.extend_from_slice(bytes);
                Ok(false)
            }
        }
    }

    /// The body has ended; whether the answer is whole.
    fn end(&mut self, events: &mut VecDeque<ModelEvent>) -> Result<bool, ModelError> {
        match &mut self.form {
            BodyFormat::Stream(parser) => {
                let mut items = Vec::new();
                parser.finish(&mut items).map_err(|_| too_long())?;
                // An event that broke off in the middle is no event.
                items.retain(|item| match item {
                    Item::Comment => false,
                    Item::Event(event) => {
                        let data = String::from_utf8_lossy(&event.data);
                        is_done(&data) || read(&data).is_some()
                    }
                });
                Ok(self.items(items, events)? || self.assembler.is_finished())
            }
            BodyFormat::Whole(body) => {
                let data = String::from_utf8_lossy(body).into_owned();
                let value = read(&data).ok_or_else(|| malformed(&data))?;
                self.assembler.absorb(Chunk::read(value), events)?;
                Ok(true)
            }
        }
    }

    fn items(
        &mut self,
        items: Vec<Item>,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<bool, ModelError> {
        for item in items {
            // What an event is called says nothing in this protocol.
            let data = match &item {
                Item::Comment => "".into(),
                Item::Event(event) => String::from_utf8_lossy(&event.data),
            };
            if is_done(&data) {
                return Ok(true);
            }
            let before = events.len();
            if !data.trim().is_empty() {
                let value = read(&data).ok_or_else(|| malformed(&data))?;
                self.assembler.absorb(Chunk::read(value), events)?;
            }
            // Arguments and empty deltas show nothing, but the model is at work.
            if events.len() == before {
                events.push_back(ModelEvent::Ping);
            }
        }
        Ok(false)
    }
}

fn is_done(data: &str) -> bool {
    data.trim() == "[DONE]"
}

fn read(data: &str) -> Option<Value> {
    serde_json::from_str::<Value>(data).ok().filter(Value::is_object)
}

fn too_long() -> ModelError {
    ModelError::Malformed { what: "a line longer than 1 MiB".to_owned() }
}

/// Says what kind of thing came, not its words: an error ends up in logs.
fn malformed(data: &str) -> ModelError {
    ModelError::Malformed {
        what: format!("an event of {} bytes that is no JSON object", data.len()),
    }
}
