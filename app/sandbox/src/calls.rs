//! What calls are made with.

use std::sync::{Arc, Weak};
use std::time::Duration;

use famulus_core::blob::Blobs;
use famulus_core::runner::{RunnerDemand, Runners};
use famulus_core::sandbox::{SandboxError, Sandboxes};
use famulus_lifecycle::Tasks;
use famulus_protocol::CallId;

use crate::home::{Home, KnownPlugin, KnownRunner};
use crate::owed::PendingAcks;
use crate::usage::Usage;
use crate::wire::RunnerClient;

/// How long things may take before they are given up.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The home's first answer.
    pub first: Duration,
    /// A runner that starts: an image may have to be fetched.
    pub start: Duration,
    /// Attempts of which none reached a runner.
    pub reach: Duration,
    /// A runner that has a call and does not answer.
    pub lost: Duration,
    /// Why a runner ended: a node tells it up to some seconds after the successor serves, and later
    /// when it is busy.
    pub cause: Duration,
    /// The end of a call that was stopped: a tool is asked, and then killed.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(5),
            start: Duration::from_mins(2),
            reach: Duration::from_secs(20),
            lost: Duration::from_mins(1),
            cause: Duration::from_secs(10),
            stop: Duration::from_secs(10),
        }
    }
}

/// What calls need of the app.
#[derive(Clone)]
pub struct Ports {
    pub blobs: Arc<dyn Blobs>,
    pub demand: Arc<dyn RunnerDemand>,
}

/// Calls as the app knows them, wherever runners are.
pub struct CallPorts {
    /// By whom runners are called.
    pub sandboxes: Arc<dyn Sandboxes>,
    /// By whom runners that call back are known.
    pub runners: Arc<dyn Runners>,
}

impl<H: Home> From<Arc<Calls<H>>> for CallPorts {
    fn from(calls: Arc<Calls<H>>) -> Self {
        Self { sandboxes: calls.clone(), runners: calls }
    }
}

/// Sandboxes of a home.
pub struct Calls<H: Home> {
    pub(crate) home: Arc<H>,
    pub(crate) http: reqwest::Client,
    /// Where runners find any process of the app, as `http://famulus-callback:3002`.
    pub(crate) callback_url: String,
    pub(crate) timeouts: Timeouts,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) demand: Arc<dyn RunnerDemand>,
    pub(crate) used: Usage,
    pub(crate) acks: PendingAcks,
    pub(crate) tasks: Tasks,
    /// Itself, for tasks that outlive a borrow.
    pub(crate) own: Weak<Self>,
}

/// What proves a request to the runners of one plugin.
pub(crate) struct Credentials {
    bearer: String,
    rendered: i64,
}

impl<H: Home> Calls<H> {
    pub fn home(&self) -> &Arc<H> {
        &self.home
    }

    /// What proves a request now: it is read anew for each, since it changes.
    pub(crate) fn credentials(&self, known: &H::Plugin) -> Credentials {
        let now = self.home.plugin_by_uid(known.uid());
        let rendered = now.map_or_else(|| known.rendered(), |now| now.rendered());
        Credentials { bearer: self.home.bearer(known, rendered), rendered }
    }

    pub(crate) fn client<'a>(
        &'a self,
        runner: &'a H::Runner,
        credentials: &'a Credentials,
    ) -> RunnerClient<'a> {
        let Credentials { bearer, rendered } = credentials;
        let (address, conduct) = (runner.address(), runner.conduct());
        RunnerClient { client: &self.http, address, conduct, bearer, rendered: *rendered }
    }

    pub(crate) fn named(&self, plugin: &str) -> Result<Arc<H::Plugin>, SandboxError> {
        self.home.plugin(plugin).ok_or_else(|| {
            let names: Vec<String> = self.home.plugins().into_keys().collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            SandboxError::NoPlugin { plugin: plugin.to_owned(), known }
        })
    }

    /// The plugin, unless it takes no calls.
    pub(crate) fn callable(&self, plugin: &str) -> Result<Arc<H::Plugin>, SandboxError> {
        let known = self.named(plugin)?;
        match known.refuses() {
            None => Ok(known),
            Some(why) => Err(SandboxError::NotReady {
                plugin: known.name().to_owned(),
                reason: why.reason,
                message: why.message,
            }),
        }
    }
}

pub(crate) fn call_id(id: &str) -> Result<CallId, SandboxError> {
    id.parse().map_err(|error| SandboxError::Refused(format!("`{id}` names no call: {error}")))
}
