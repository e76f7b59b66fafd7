//! What a trace shows of a turn. A program of its own: which spans anybody wants is kept once for all
//! threads, and asked of the one that meets a span first.

#![expect(clippy::expect_used, reason = "a test's helpers fail the test")]

#[path = "turns/desk.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod desk;
#[path = "turns/peer.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod peer;
#[path = "turns/record.rs"]
mod record;

use desk::Desk;
use famulus_core::{
    clock::SystemClock,
    message::{Part, ToolCall},
};
use famulus_tools::{
    Catalogue, PluginPorts, Ports,
    fake::{
        FakeKnowledge, FakePost, FakeSchedules,
        plugins::{FakeBlobs, FakeManaged, FakeRevisions, FakeSandboxes, Play},
    },
};
use parking_lot::Mutex;
use peer::{Peer, replies, says};
use std::{fmt, fmt::Write as _, sync::Arc};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

#[tokio::test]
async fn the_model_and_each_tool_have_a_span_within_that_of_their_turn() {
    let clock = Arc::new(SystemClock);
    let revisions = Arc::<FakeRevisions>::default();
    let ports = Ports {
        knowledge: FakeKnowledge::new(clock.clone()),
        schedules: FakeSchedules::new(clock.clone()),
        post: Arc::<FakePost>::default(),
        ways: Vec::new(),
        speaker: None,
        plugins: PluginPorts {
            sandboxes: FakeSandboxes::new(Vec::new(), |_| Play::Later),
            revisions: revisions.clone(),
            late: revisions,
            blobs: Arc::<FakeBlobs>::default(),
            managed: Arc::<FakeManaged>::default(),
        },
        clock,
    };
    let mut desk = Desk::new();
    desk.tools = Arc::new(Catalogue::new(&ports).unwrap());
    let trace = Trace::default();
    let _until_end = tracing::subscriber::set_default(trace.clone());
    let time = || ToolCall { id: "call_0".into(), name: "get_time".into(), arguments: "{}".into() };
    let peer = Peer::new(move |n, _| match n {
        0 => replies(vec![Part::call(time())]),
        _ => says("Now."),
    });
    desk.drive(peer).await.unwrap();

    let spans = trace.spans.lock();
    let named: Vec<_> =
        spans.iter().map(|span| (span.name, span.parent.map(name_of(&spans)))).collect();
    let of_turn = Some("turn");
    assert_eq!(named, [("turn", None), ("model", of_turn), ("tool", of_turn), ("model", of_turn)]);
    assert!(spans[0].fields.contains(&format!("turn.id={}", desk.turn)), "{}", spans[0].fields);
    assert!(spans[1].fields.contains("provider=\"peer\""), "{}", spans[1].fields);
    assert!(spans[2].fields.contains("tool.name=\"get_time\""), "{}", spans[2].fields);
}

fn name_of(spans: &[Span]) -> impl Fn(u64) -> &'static str {
    |id| spans[id as usize - 1].name
}

/// The spans that were opened, in order; an id is the place behind which one stands.
#[derive(Clone, Default)]
struct Trace {
    spans: Arc<Mutex<Vec<Span>>>,
    entered: Arc<Mutex<Vec<u64>>>,
}

struct Span {
    name: &'static str,
    parent: Option<u64>,
    fields: String,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _infallible = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Trace {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("famulus")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(String::new());
        span.record(&mut fields);
        let parent = self.entered.lock().last().copied();
        let mut spans = self.spans.lock();
        spans.push(Span { name: span.metadata().name(), parent, fields: fields.0 });
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        self.entered.lock().push(span.into_u64());
    }

    fn exit(&self, _: &Id) {
        self.entered.lock().pop();
    }
}
