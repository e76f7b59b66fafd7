//! Plugins in memory. They keep what the port promises: a call happens once for its name, and what
//! came of it is kept until it is acknowledged.

use async_trait::async_trait;
use famulus_core::StoreError;
use famulus_core::blob::{BlobError, BlobRef, Blobs};
use famulus_core::ids::{BlobId, PersonId};
use famulus_core::plugin::{
    Change, ConfigKey, Description, Egress, Granted, LateCall, LateCalls, ManageError,
    ManagedPlugins, Offer, PluginEvent, PluginSource, Revisions, ToolDescription, rules,
};
use famulus_core::sandbox::{
    PluginState, RunOutput, SandboxAnswer, SandboxCall, SandboxError, SandboxResult, SandboxRun,
    Sandboxes, Stage,
};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a call comes to.
#[derive(Clone, Debug)]
pub enum Play {
    End(SandboxResult),
    /// It is an async one.
    Later,
    Fail(SandboxError),
    /// It goes on until the token ends, or the call is cancelled.
    Hold(CancellationToken, SandboxResult),
}

type Plan = dyn Fn(&SandboxCall) -> Play + Send + Sync;

/// Sandboxes in memory.
pub struct FakeSandboxes {
    pub plugins: Mutex<Vec<PluginState>>,
    plan: Box<Plan>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<SandboxCall>,
    kept: BTreeMap<String, SandboxAnswer>,
    acknowledged: Vec<String>,
    /// What the next one who asks after a call hears instead of an answer.
    trouble: Option<SandboxError>,
}

impl FakeSandboxes {
    pub fn new(
        plugins: Vec<PluginState>,
        plan: impl Fn(&SandboxCall) -> Play + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            plugins: Mutex::new(plugins),
            plan: Box::new(plan),
            state: Mutex::default(),
        })
    }

    /// The calls that were made, in order.
    pub fn calls(&self) -> Vec<SandboxCall> {
        self.state.lock().calls.clone()
    }

    /// The names of results that were let go.
    pub fn acknowledged(&self) -> Vec<String> {
        self.state.lock().acknowledged.clone()
    }

    /// Whoever asks after a call next hears this, once.
    pub fn trouble(&self, error: SandboxError) {
        self.state.lock().trouble = Some(error);
    }

    /// Whether nobody has heard it yet.
    pub fn is_in_trouble(&self) -> bool {
        self.state.lock().trouble.is_some()
    }

    /// Puts what a call came to, as a runner does that goes on without its caller.
    pub fn keep(&self, id: &str, answer: SandboxAnswer) {
        self.state.lock().kept.insert(id.to_owned(), answer);
    }
}

/// A plugin that is ready and serves the revision [`digest`] of its name.
pub fn plugin(name: &str, tools: &[&str]) -> PluginState {
    PluginState {
        name: name.to_owned(),
        ready: true,
        reason: "Serving".to_owned(),
        message: "its runner answers".to_owned(),
        revision: Some(digest(name)),
        commit: None,
        tools: tools.iter().map(ToString::to_string).collect(),
        config_keys: Vec::new(),
        egress: "none".to_owned(),
        runners: 1,
        isolation: None,
    }
}

/// A digest that goes with a name.
pub fn digest(name: &str) -> String {
    let hex = name.bytes().fold(0_u128, |hex, byte| hex << 8 | u128::from(byte));
    format!("sha256:{hex:064x}")
}

/// A result of one run.
pub fn result(output: RunOutput) -> SandboxResult {
    let run = SandboxRun { output, files: Vec::new(), notes: Vec::new(), millis: 3 };
    SandboxResult { each: false, runs: vec![run] }
}

#[async_trait]
impl Sandboxes for FakeSandboxes {
    async fn plugins(&self) -> Result<Vec<PluginState>, SandboxError> {
        Ok(self.plugins.lock().clone())
    }

    async fn run(&self, call: SandboxCall) -> Result<SandboxAnswer, SandboxError> {
        let (id, cancel) = (call.id.clone(), call.cancel.clone());
        if let Some(kept) = self.state.lock().kept.get(&id) {
            return Ok(kept.clone());
        }
        let play = (self.plan)(&call);
        call.progress.tell(Stage::Started { run: 0, runs: 1 });
        self.state.lock().calls.push(call);
        let answer = match play {
            Play::End(result) => SandboxAnswer::Ended(result),
            Play::Later => SandboxAnswer::Running,
            Play::Fail(error) => return Err(error),
            Play::Hold(until, result) => {
                self.keep(&id, SandboxAnswer::Running);
                tokio::select! {
                    () = until.cancelled() => SandboxAnswer::Ended(result),
                    () = cancel.cancelled() => return Err(SandboxError::Stopped),
                }
            }
        };
        self.keep(&id, answer.clone());
        Ok(answer)
    }

    async fn ask(
        &self,
        _plugin: &str,
        id: &str,
        _sent: Timestamp,
        _person: PersonId,
    ) -> Result<Option<SandboxAnswer>, SandboxError> {
        let mut state = self.state.lock();
        state.trouble.take().map_or_else(|| Ok(state.kept.get(id).cloned()), Err)
    }

    async fn acknowledge(&self, _plugin: &str, id: &str) {
        let mut state = self.state.lock();
        state.kept.remove(id);
        state.acknowledged.push(id.to_owned());
    }

    async fn logs(&self, plugin: &str) -> Result<Vec<String>, SandboxError> {
        Ok(vec![format!("{plugin} said hello")])
    }
}

/// Descriptions and expected results in memory.
#[derive(Default)]
pub struct FakeRevisions {
    pub descriptions: Mutex<BTreeMap<String, Description>>,
    pub expected: Mutex<Vec<LateCall>>,
}

#[async_trait]
impl Revisions for FakeRevisions {
    async fn described(&self, digest: &str) -> Result<Option<Description>, StoreError> {
        Ok(self.descriptions.lock().get(digest).cloned())
    }
}

#[async_trait]
impl LateCalls for FakeRevisions {
    async fn expect(&self, call: &LateCall) -> Result<(), StoreError> {
        let mut expected = self.expected.lock();
        expected.retain(|other| other.id != call.id);
        expected.push(call.clone());
        Ok(())
    }

    async fn is_late(&self, _person: PersonId, id: &str) -> Result<bool, StoreError> {
        Ok(self.expected.lock().iter().any(|call| call.id == id))
    }
}

/// Files in memory.
#[derive(Default)]
pub struct FakeBlobs(Mutex<Vec<(PersonId, BlobRef, bytes::Bytes)>>);

impl FakeBlobs {
    /// Owner, media type and bytes of each.
    pub fn stored(&self) -> Vec<(PersonId, String, Vec<u8>)> {
        let files = self.0.lock();
        files
            .iter()
            .map(|(owner, blob, bytes)| (*owner, blob.mime.clone(), bytes.to_vec()))
            .collect()
    }

    pub fn add(&self, person: PersonId, mime: &str, bytes: &'static [u8]) -> BlobRef {
        let blob = BlobRef {
            id: BlobId::new(),
            sha256: String::new(),
            mime: mime.to_owned(),
            size: bytes.len() as u64,
        };
        self.0.lock().push((person, blob.clone(), bytes::Bytes::from_static(bytes)));
        blob
    }
}

#[async_trait]
impl Blobs for FakeBlobs {
    async fn put(
        &self,
        person: PersonId,
        mime: &str,
        limit: u64,
        mut bytes: BoxStream<'_, std::io::Result<bytes::Bytes>>,
    ) -> Result<BlobRef, BlobError> {
        let mut all = Vec::new();
        while let Some(piece) = bytes.next().await {
            all.extend_from_slice(&piece.map_err(BlobError::Cut)?);
            if all.len() as u64 > limit {
                return Err(BlobError::TooLarge { limit });
            }
        }
        let blob = BlobRef {
            id: BlobId::new(),
            sha256: String::new(),
            mime: mime.to_owned(),
            size: all.len() as u64,
        };
        self.0.lock().push((person, blob.clone(), all.into()));
        Ok(blob)
    }

    async fn get(
        &self,
        person: PersonId,
        id: BlobId,
    ) -> Result<(BlobRef, BoxStream<'static, Result<bytes::Bytes, BlobError>>), BlobError> {
        let files = self.0.lock();
        let found = files.iter().find(|(owner, blob, _)| *owner == person && blob.id == id);
        let (_, blob, bytes) = found.ok_or(BlobError::Missing { id })?;
        Ok((blob.clone(), stream::iter([Ok(bytes.clone())]).boxed()))
    }
}

/// Who sees to plugins, in memory: every address is fetched as a plugin of one tool.
#[derive(Default)]
pub struct FakeManaged {
    /// What was asked for, in words.
    pub asked: Mutex<Vec<String>>,
    pub offered: Mutex<BTreeMap<String, Offer>>,
    /// What the plugins are from that were installed.
    pub sources: Mutex<BTreeMap<String, PluginSource>>,
}

impl FakeManaged {
    fn note(&self, what: String) {
        self.asked.lock().push(what);
    }

    fn offer(&self, plugin: &str, source: String) -> Offer {
        let tool = ToolDescription {
            name: "roll".to_owned(),
            description: "Rolls.".to_owned(),
            r#async: false,
            concurrent: false,
            parameters: serde_json::Map::new(),
        };
        let config = |key: &str, secret| ConfigKey {
            key: key.to_owned(),
            description: "d".to_owned(),
            required: false,
            secret,
            default: None,
        };
        let offer = Offer {
            plugin: plugin.to_owned(),
            changed: true,
            revision: digest(plugin),
            commit: Some("c0ffee00c0ffee00".to_owned()),
            source,
            description: Description {
                plugin: plugin.to_owned(),
                description: "Throws dice.".to_owned(),
                instructions: None,
                commit: None,
                config: vec![config("sides", false), config("key", true)],
                tools: vec![tool],
                contents: None,
            },
            before: None,
            permitted: Vec::new(),
            egress: Egress::None,
        };
        self.offered.lock().insert(plugin.to_owned(), offer.clone());
        offer
    }
}

#[async_trait]
impl ManagedPlugins for FakeManaged {
    async fn install(
        &self,
        name: Option<&str>,
        source: PluginSource,
        who: &str,
    ) -> Result<Offer, ManageError> {
        self.note(format!("{who} installs {source}"));
        let name = name.unwrap_or("dice");
        self.sources.lock().insert(name.to_owned(), source.clone());
        Ok(self.offer(name, source.to_string()))
    }

    async fn update(&self, name: &str, change: Change, who: &str) -> Result<Offer, ManageError> {
        self.note(format!("{who} updates {name}: {change:?}"));
        let source = match (self.source(name).await, &change) {
            (Ok(source), _) => rules::changed(name, source, change)?,
            (Err(error), Change::Edits(_)) => return Err(error),
            // It is there all the same: nobody asks where it is from.
            (Err(_), Change::Again | Change::Ref(_) | Change::Files(_)) => {
                return Ok(self.offer(name, "its source".to_owned()));
            }
        };
        self.sources.lock().insert(name.to_owned(), source);
        Ok(self.offer(name, "its source".to_owned()))
    }

    async fn permit(&self, name: &str, granted: Granted, who: &str) -> Result<(), ManageError> {
        let Granted { revision, tools, egress } = granted;
        let (tools, egress) = (tools.join(", "), egress.name());
        self.note(format!("{who} permits {name} {revision}: {tools}; {egress}"));
        Ok(())
    }

    async fn configure(
        &self,
        name: &str,
        key: &str,
        value: Option<Value>,
        who: &str,
    ) -> Result<(), ManageError> {
        self.note(format!("{who} configures {key} of {name}: {value:?}"));
        Ok(())
    }

    async fn roll_back(
        &self,
        name: &str,
        revision: Option<&str>,
        who: &str,
    ) -> Result<String, ManageError> {
        self.note(format!("{who} rolls {name} back to {revision:?}"));
        Ok(digest(name))
    }

    async fn remove(&self, name: &str) -> Result<(), ManageError> {
        self.note(format!("{name} is removed"));
        Ok(())
    }

    async fn history(&self, _: &str) -> Result<Vec<PluginEvent>, ManageError> {
        Ok(Vec::new())
    }

    async fn source(&self, name: &str) -> Result<PluginSource, ManageError> {
        let source = self.sources.lock().get(name).cloned();
        source.ok_or_else(|| ManageError::NoPlugin(name.to_owned()))
    }

    async fn offer_of(&self, name: &str) -> Result<Option<Offer>, ManageError> {
        Ok(self.offered.lock().get(name).cloned())
    }
}
