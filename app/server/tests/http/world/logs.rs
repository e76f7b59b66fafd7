//! What this process logs while a test runs, on the test's own thread.

use parking_lot::Mutex;
use std::{
    fmt::{self, Write as _},
    sync::Arc,
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Takes every line and every span, with all fields.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<String>>);

impl Logs {
    pub(crate) fn text(&self) -> String {
        self.0.lock().clone()
    }

    fn note(&self, of: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{} {}", of.target(), of.name()));
        record(&mut line);
        let mut text = self.0.lock();
        text.push_str(&line.0);
        text.push('\n');
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Logs {
    /// All of ours, and of others what an operator may see.
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        of.target().starts_with("famulus") || *of.level() <= Level::INFO
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.note(span.metadata(), |line| span.record(line));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        self.0.lock().push_str(&line.0);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata(), |line| event.record(line));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
