//! A viewer of one conversation, as strict as the contract: what `resumed` takes back is dropped,
//! nothing else is, and nothing may come twice.

use crate::support::client::Client;
use crate::support::fleet::Fleet;
use anyhow::{Result, bail, ensure};
use reqwest::Response;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// A stream that is silent for longer comes from a process that stands still.
const SILENCE: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_mins(1);

/// (token, number)
pub(crate) type Id = (i64, i64);

/// An id as it stands in an event.
pub(crate) fn read_id(id: &Value) -> Option<Id> {
    Some((id["fence"].as_i64()?, id["number"].as_i64()?))
}

/// What a viewer holds of each turn.
#[derive(Default)]
pub(crate) struct Shown {
    turns: BTreeMap<Uuid, Vec<(Id, String)>>,
}

impl Shown {
    pub(crate) fn apply(&mut self, id: Id, event: &Value) {
        let turn = event["turn"].as_str().and_then(|turn| turn.parse().ok());
        let Some(turn) = turn else { return };
        let pieces = self.turns.entry(turn).or_default();
        match event["type"].as_str() {
            Some("delta") if event["kind"] == "text" => {
                pieces.push((id, event["text"].as_str().unwrap_or_default().to_owned()));
            }
            Some("resumed") => {
                let last = read_id(&event["last"]).unwrap_or((0, 0));
                pieces.retain(|(id, _)| *id <= last);
            }
            _ => {}
        }
    }

    pub(crate) fn text(&self, turn: Uuid) -> String {
        let pieces = self.turns.get(&turn).map_or(&[][..], Vec::as_slice);
        pieces.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// A viewer that comes back to another process whenever its stream ends.
pub(crate) struct Viewer {
    client: Client,
    fleet: Arc<Fleet>,
    pub(crate) conversation: Uuid,
    /// The last event that it has seen.
    place: Option<Id>,
    shown: Shown,
    /// Texts with which turns were said to have ended.
    ended: BTreeMap<Uuid, String>,
    stream: Option<Stream>,
    pub(crate) connected: u32,
}

struct Stream {
    /// The process that serves it.
    process: usize,
    response: Response,
    unread: String,
}

impl std::fmt::Debug for Viewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Viewer")
            .field("place", &self.place)
            .field("served_by", &self.served_by())
            .field("connected", &self.connected)
            .finish_non_exhaustive()
    }
}

impl Viewer {
    pub(crate) fn new(client: Client, fleet: Arc<Fleet>, conversation: Uuid) -> Self {
        Self {
            client,
            fleet,
            conversation,
            place: None,
            shown: Shown::default(),
            ended: BTreeMap::new(),
            stream: None,
            connected: 0,
        }
    }

    pub(crate) fn text(&self, turn: Uuid) -> String {
        self.shown.text(turn)
    }

    /// Whether anything of a turn was seen.
    pub(crate) fn knows(&self, turn: Uuid) -> bool {
        self.shown.turns.contains_key(&turn)
    }

    pub(crate) fn ending(&self, turn: Uuid) -> Option<&str> {
        self.ended.get(&turn).map(String::as_str)
    }

    /// The process that serves it.
    pub(crate) fn served_by(&self) -> Option<usize> {
        self.stream.as_ref().map(|stream| stream.process)
    }

    /// Opens the stream at any process, behind the last event that it has seen.
    pub(crate) async fn connect(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let addresses = self.fleet.addresses();
            self.connected += 1;
            // Another process each time, if there is one.
            let Some((process, address)) =
                addresses.get(self.connected as usize % addresses.len().max(1))
            else {
                sleep(Duration::from_millis(20)).await;
                continue;
            };
            let path = format!("http://{address}/v1/conversations/{}/events", self.conversation);
            let mut request = self.client.http.get(path).bearer_auth(&self.client.token);
            if let Some((fence, number)) = self.place {
                request = request.header("last-event-id", format!("{fence}-{number}"));
            }
            match timeout(SILENCE, request.send()).await {
                Ok(Ok(response)) if response.status().is_success() => {
                    let process = *process;
                    self.stream = Some(Stream { process, response, unread: String::new() });
                    return Ok(());
                }
                Ok(Ok(response)) if !response.status().is_server_error() => {
                    bail!("the stream was refused: {}", response.status());
                }
                Ok(Ok(_) | Err(_)) | Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
        bail!("no process served the stream within {PATIENCE:?}")
    }

    /// Watches until a turn has ended.
    pub(crate) async fn until_ended(&mut self, turn: Uuid) -> Result<()> {
        let begun = Instant::now();
        while !self.ended.contains_key(&turn) {
            ensure!(begun.elapsed() < PATIENCE, "the end of turn {turn} was not shown");
            self.advance().await?;
        }
        Ok(())
    }

    /// Waits for the next piece of the stream, whichever process it comes from.
    pub(crate) async fn advance(&mut self) -> Result<()> {
        let Some(stream) = &mut self.stream else { return self.connect().await };
        if let Ok(Ok(Some(bytes))) = timeout(SILENCE, stream.response.chunk()).await {
            stream.unread.push_str(std::str::from_utf8(&bytes)?);
            return self.read();
        }
        self.stream = None;
        Ok(())
    }

    /// Takes in every event that has arrived whole.
    fn read(&mut self) -> Result<()> {
        while let Some(stream) = &mut self.stream {
            let Some((event, rest)) = stream.unread.split_once("\n\n") else { return Ok(()) };
            let (event, rest) = (event.to_owned(), rest.to_owned());
            stream.unread = rest;
            self.take(&event)?;
        }
        Ok(())
    }

    fn take(&mut self, event: &str) -> Result<()> {
        let field = |name: &str| {
            event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start)
        };
        ensure!(field("event:") != Some("reset"), "the viewer was told to begin anew: {event}");
        // A comment is a sign of life.
        let Some(data) = field("data:") else { return Ok(()) };
        let data: Value = serde_json::from_str(data)?;
        let Some(id) = read_id(&data["id"]) else { bail!("an event without a place: {event}") };
        let (fence, number) = id;
        ensure!(field("id:") == Some(&format!("{fence}-{number}")), "two ids: {event}");
        ensure!(Some(id) > self.place, "seen before or out of order: {event}");
        self.place = Some(id);
        self.shown.apply(id, &data["event"]);
        if data["event"]["type"] == "complete"
            && let Some(turn) = data["event"]["turn"].as_str().and_then(|turn| turn.parse().ok())
        {
            let text = data["event"]["text"].as_str().unwrap_or_default();
            self.ended.insert(turn, text.to_owned());
        }
        Ok(())
    }
}
