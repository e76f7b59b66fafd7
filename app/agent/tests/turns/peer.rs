//! A model that does as it is told.

use famulus_core::{
    message::{Part, ToolCall},
    model::{Model, ModelError, ModelEvent, ModelReply, ModelRequest, ModelStream, Usage},
};
use futures::{StreamExt as _, stream};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Decides an answer by what was asked, and how many were asked before.
type Answers = dyn Fn(usize, &ModelRequest) -> ModelStream + Send + Sync;

/// A provider that does as it is told.
pub(crate) struct Peer {
    plan: Box<Answers>,
    asked: AtomicUsize,
}

impl Peer {
    pub(crate) fn new(
        plan: impl Fn(usize, &ModelRequest) -> ModelStream + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { plan: Box::new(plan), asked: AtomicUsize::new(0) })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Model for Peer {
    fn provider(&self) -> &'static str {
        "peer"
    }

    fn ask(&self, request: ModelRequest) -> ModelStream {
        (self.plan)(self.asked.fetch_add(1, Ordering::SeqCst), &request)
    }
}

/// It fails at once.
pub(crate) fn fails(error: ModelError) -> ModelStream {
    stream::iter([Err(error)]).boxed()
}

/// It says this, and is done.
pub(crate) fn says(text: &str) -> ModelStream {
    replies(vec![Part::assistant_text(text)])
}

/// It wants to look so many times, and elsewhere than in other steps.
pub(crate) fn looks(times: usize, step: usize) -> ModelStream {
    let call = |n: usize| call("look", n, &format!("{{\"at\":\"{step}/{n}\"}}"));
    replies((0..times).map(call).collect())
}

fn call(tool: &str, n: usize, arguments: &str) -> Part {
    let (id, arguments) = (format!("call_{n}"), arguments.to_owned());
    Part::call(ToolCall { id, name: tool.to_owned(), arguments })
}

/// It says a word, and then nothing for ever.
pub(crate) fn falls_silent() -> ModelStream {
    let word = Ok(ModelEvent::Text("Well, ".into()));
    stream::iter([word]).chain(stream::pending()).boxed()
}

pub(crate) fn replies(parts: Vec<Part>) -> ModelStream {
    let reply = ModelReply { model: "peer-1".into(), parts, blocks: None, usage: Usage::default() };
    stream::iter([Ok(ModelEvent::Done(Box::new(reply)))]).boxed()
}
