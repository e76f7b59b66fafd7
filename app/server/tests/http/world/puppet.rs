//! A model on strings: it says and calls what the test decides, when the test decides.

use super::soon;
use famulus_core::{
    message::{Message, MessageRole, Part, PartBody, ToolCall},
    model::{Model, ModelError, ModelEvent, ModelReply, ModelRequest, ModelStream, Usage},
};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What it does of an answer.
pub(crate) enum Do {
    Say(String),
    Call(&'static str, String),
    /// Goes on when the token is cancelled.
    Hold(CancellationToken),
    /// The provider refuses the credentials.
    Refuse,
}

pub(crate) fn say(text: impl Into<String>) -> Do {
    Do::Say(text.into())
}

pub(crate) fn call(tool: &'static str, arguments: &Value) -> Do {
    Do::Call(tool, arguments.to_string())
}

/// Decides an answer by what was asked, and how many were asked before.
type Plan = dyn Fn(usize, &ModelRequest) -> Vec<Do> + Send + Sync;

pub(crate) struct Puppet {
    plan: Box<Plan>,
    asked: watch::Sender<Vec<ModelRequest>>,
    titled: watch::Sender<usize>,
    dropped: Arc<watch::Sender<usize>>,
}

impl Puppet {
    pub(crate) const TITLE: &str = "\"Four Words For It And More.\"";
    /// What it counts for each answer.
    pub(crate) const USAGE: Usage = Usage { input_tokens: Some(10), output_tokens: Some(5) };

    pub(crate) fn new(
        plan: impl Fn(usize, &ModelRequest) -> Vec<Do> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            plan: Box::new(plan),
            asked: watch::Sender::default(),
            titled: watch::Sender::default(),
            dropped: Arc::default(),
        })
    }

    /// Waits until it was asked so many times, titles left out, and returns all that was asked.
    pub(crate) async fn asked(&self, times: usize) -> Vec<ModelRequest> {
        let mut asked = self.asked.subscribe();
        let reached = asked.wait_for(|requests| requests.len() >= times);
        let requests = soon(&format!("the model is asked {times} times"), reached).await;
        requests.unwrap().clone()
    }

    /// How many times it was asked so far.
    pub(crate) fn times(&self) -> usize {
        self.asked.borrow().len()
    }

    /// How many titles were asked for.
    pub(crate) fn titles(&self) -> usize {
        *self.titled.borrow()
    }

    /// Waits until so many of its answers were broken off by who asked.
    pub(crate) async fn dropped(&self, times: usize) {
        let mut dropped = self.dropped.subscribe();
        let reached = dropped.wait_for(|count| *count >= times);
        soon("the model's answer is broken off", reached).await.unwrap();
    }
}

impl Model for Puppet {
    fn provider(&self) -> &'static str {
        "puppet"
    }

    fn ask(&self, request: ModelRequest) -> ModelStream {
        let script = if request.system.starts_with("Make a title") {
            self.titled.send_modify(|count| *count += 1);
            vec![say(Self::TITLE)]
        } else {
            let number = self.asked.borrow().len();
            let script = (self.plan)(number, &request);
            self.asked.send_modify(|requests| requests.push(request));
            script
        };
        let playing = Playing {
            script: script.into(),
            text: String::new(),
            calls: Vec::new(),
            number: self.times(),
            dropped: Some(Arc::clone(&self.dropped)),
        };
        stream::unfold(playing, async |mut playing| {
            let event = playing.next().await?;
            Some((event, playing))
        })
        .boxed()
    }
}

struct Playing {
    script: VecDeque<Do>,
    text: String,
    calls: Vec<ToolCall>,
    number: usize,
    /// Taken at the end.
    dropped: Option<Arc<watch::Sender<usize>>>,
}

impl Playing {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        self.dropped.as_ref()?;
        loop {
            match self.script.pop_front() {
                Some(Do::Say(text)) => {
                    self.text.push_str(&text);
                    return Some(Ok(ModelEvent::Text(text)));
                }
                Some(Do::Call(name, arguments)) => {
                    let id = format!("call_{}_{}", self.number, self.calls.len());
                    self.calls.push(ToolCall { id, name: name.to_owned(), arguments });
                    return Some(Ok(ModelEvent::Calling { name: name.to_owned() }));
                }
                Some(Do::Hold(token)) => token.cancelled().await,
                Some(Do::Refuse) => {
                    self.dropped = None;
                    return Some(Err(ModelError::Unauthorized { status: 401 }));
                }
                None => {
                    self.dropped = None;
                    let mut parts = Vec::new();
                    if !self.text.is_empty() {
                        parts.push(Part::assistant_text(std::mem::take(&mut self.text)));
                    }
                    parts.extend(std::mem::take(&mut self.calls).into_iter().map(Part::call));
                    let reply = ModelReply {
                        model: "puppet-1".to_owned(),
                        parts,
                        blocks: None,
                        usage: Puppet::USAGE,
                    };
                    return Some(Ok(ModelEvent::Done(Box::new(reply))));
                }
            }
        }
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            dropped.send_modify(|count| *count += 1);
        }
    }
}

/// What a model reads, as text.
pub(crate) trait Text {
    /// The last message's text; of tool results their outputs.
    fn last(&self) -> String;
    /// Each message's text, with its role.
    fn all(&self) -> Vec<(MessageRole, String)>;
    /// Whether the model has results to answer from.
    fn has_results(&self) -> bool;
    /// The names of the tools that it is offered.
    fn tool_names(&self) -> Vec<&str>;
}

impl Text for ModelRequest {
    fn last(&self) -> String {
        self.messages.last().map(|message| text_of(message)).unwrap_or_default()
    }

    fn all(&self) -> Vec<(MessageRole, String)> {
        self.messages.iter().map(|message| (message.role, text_of(message))).collect()
    }

    fn has_results(&self) -> bool {
        self.messages.last().is_some_and(|message| message.role == MessageRole::Tool)
    }

    fn tool_names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name.as_str()).collect()
    }
}

fn text_of(message: &Message) -> String {
    if message.role != MessageRole::Tool {
        return message.text();
    }
    let outputs = message.parts.iter().filter_map(|part| match &part.body {
        PartBody::ToolResult(result) => Some(result.output.text()),
        PartBody::Text { .. }
        | PartBody::Reasoning { .. }
        | PartBody::ToolCall(_)
        | PartBody::Image(_)
        | PartBody::Audio(_)
        | PartBody::File(_)
        | PartBody::Sentinel { .. } => None,
    });
    outputs.collect::<Vec<_>>().join("\n")
}
