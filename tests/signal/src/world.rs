//! What there is: the account, what it sent, what is to be told, the files, and the faults that wait.

use crate::fault::Fault;
use crate::link::Links;
use crate::people;
use crate::register::Registrations;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::Sender;

/// When the daemon takes messages from Signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Always: what nobody listens to is lost.
    OnStart,
    /// While somebody listens; else they wait with Signal.
    OnConnection,
}

/// A file that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub media_type: String,
    pub bytes: Bytes,
}

/// A message that we sent, as it stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// By which it is known.
    pub timestamp: i64,
    /// An account id, or a group's.
    pub to: String,
    pub text: String,
    /// Each with the text that it covers.
    pub styles: Vec<(String, String)>,
    pub files: Vec<File>,
    pub is_voice: bool,
    /// How often it was changed.
    pub edits: usize,
}

/// A message that streams were told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    pub timestamp: i64,
    /// By number, as they were opened.
    pub streams: Vec<u64>,
    /// Whether somebody still reads one of them.
    pub is_in_open_stream: bool,
}

pub(crate) struct Stream {
    pub(crate) number: u64,
    pub(crate) sender: Sender<Bytes>,
}

pub(crate) struct World {
    /// Number and id.
    pub(crate) accounts: Vec<(String, String)>,
    pub(crate) mode: Mode,
    /// With Signal, until somebody listens.
    pub(crate) waiting: VecDeque<Value>,
    /// What nobody will ever hear.
    pub(crate) lost: usize,
    pub(crate) streams: Vec<Stream>,
    pub(crate) next_stream: u64,
    /// How often all streams were ended.
    pub(crate) drops: u64,
    /// By time and stream.
    pub(crate) handed: Vec<(i64, Vec<u64>)>,
    pub(crate) keep_alive: Duration,
    /// Says nothing on its streams any more.
    pub(crate) is_stalled: bool,
    /// That a reader hung up shows when something is written to it, which goes nowhere.
    pub(crate) notices_late: bool,
    pub(crate) last: i64,
    pub(crate) messages: Vec<Message>,
    pub(crate) files: HashMap<String, Bytes>,
    /// Where accounts and files outlive it.
    pub(crate) folder: Option<PathBuf>,
    /// By method; `*` is any.
    pub(crate) faults: HashMap<String, VecDeque<Fault>>,
    /// Account ids that are on Signal no more.
    pub(crate) gone: BTreeSet<String>,
    /// Who was shown that somebody writes.
    pub(crate) typing: Vec<String>,
    /// To whom it was said of which message that it was read.
    pub(crate) receipts: Vec<(String, i64)>,
    pub(crate) left: Vec<String>,
    pub(crate) links: Links,
    pub(crate) registrations: Registrations,
    pub(crate) calls: Vec<(String, Value)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            accounts: vec![(people::phone(99), people::id(99))],
            mode: Mode::OnConnection,
            waiting: VecDeque::new(),
            lost: 0,
            streams: Vec::new(),
            next_stream: 0,
            drops: 0,
            handed: Vec::new(),
            keep_alive: Duration::from_secs(15),
            is_stalled: false,
            notices_late: false,
            last: 0,
            messages: Vec::new(),
            files: HashMap::new(),
            folder: None,
            faults: HashMap::new(),
            gone: BTreeSet::new(),
            typing: Vec::new(),
            receipts: Vec::new(),
            left: Vec::new(),
            links: Links::default(),
            registrations: Registrations::default(),
            calls: Vec::new(),
        }
    }

    /// Milliseconds, and no two are the same.
    #[expect(clippy::disallowed_methods, reason = "a platform has a clock of its own")]
    pub(crate) fn now(&mut self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last = (now.as_millis() as i64).max(self.last + 1);
        self.last
    }

    /// Tells an event to whoever listens; each once.
    pub(crate) fn tell(&mut self, envelope: Value) {
        let number = self.accounts.first().map(|(number, _)| number.clone());
        let event = json!({"envelope": envelope, "account": number});
        if !self.notices_late {
            self.streams.retain(|stream| !stream.sender.is_closed());
        }
        if self.streams.is_empty() || self.is_stalled {
            match self.mode {
                Mode::OnConnection => self.waiting.push_back(event),
                Mode::OnStart => self.lost += 1,
            }
            return;
        }
        let line = framed(&event);
        let streams = self.streams.iter().map(|stream| stream.number).collect();
        self.streams.retain(|stream| stream.sender.try_send(line.clone()).is_ok());
        self.handed.push((time_of(&event), streams));
    }

    /// Begins a stream, which is told first what waits.
    pub(crate) fn begin(&mut self, sender: Sender<Bytes>) {
        let number = self.next_stream;
        self.next_stream += 1;
        for event in self.waiting.drain(..) {
            let _a_reader_that_went = sender.try_send(framed(&event));
            self.handed.push((time_of(&event), vec![number]));
        }
        self.streams.push(Stream { number, sender });
    }

    pub(crate) fn fault(&mut self, method: &str) -> Option<Fault> {
        let of_method = self.faults.get_mut(method).and_then(VecDeque::pop_front);
        of_method.or_else(|| self.faults.get_mut("*").and_then(VecDeque::pop_front))
    }
}

fn time_of(event: &Value) -> i64 {
    event["envelope"]["timestamp"].as_i64().unwrap_or_default()
}

/// No space behind the colon, and no id: that is how it is written.
pub(crate) fn framed(event: &Value) -> Bytes {
    format!("event:receive\ndata:{event}\n\n").into()
}
