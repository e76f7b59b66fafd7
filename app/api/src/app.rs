//! What the handlers share.

use crate::{
    auth::CallerCache, body_memory::BodyMemory, config::Config, limits::Limiter,
    readiness::Readiness, routes::lookup::Routes,
};
use famulus_core::{
    Clock,
    ids::TokenId,
    linking::Linker,
    plugin::ManagedPlugins,
    runner::{Origin, Runners},
    sandbox::Sandboxes,
};
use famulus_reception::Reception;
use famulus_store::Store;
use famulus_viewers::Hub;
use jiff::Timestamp;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What the API is made from; [`Api::serve`] runs it.
#[derive(Clone)]
pub struct Api {
    pub store: Store,
    pub hub: Arc<Hub>,
    pub reception: Reception,
    pub config: Config,
    pub readiness: Readiness,
    /// The text of `GET /metrics`.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Where plugins run, and who calls from there.
    pub sandboxes: Arc<dyn Sandboxes>,
    pub runners: Arc<dyn Runners>,
    /// Who sees to plugins.
    pub managed: Arc<dyn ManagedPlugins>,
    /// What plugins cost a model in every call, in tokens, however many there are.
    pub plugin_tokens: usize,
    /// The tools that an agent can be granted.
    pub catalogue: Vec<Grantable>,
    pub clock: Arc<dyn Clock>,
    pub configured: watch::Receiver<Configured>,
    /// The channels on which people are heard.
    pub hearing: Vec<String>,
    /// Who links accounts to the program of a channel, by the channel's name.
    pub linkers: BTreeMap<String, Arc<dyn Linker>>,
    /// How the backups stand; `None` where somebody else sees to them.
    pub backups: watch::Receiver<Option<Standing>>,
    /// When the process started.
    pub started: Timestamp,
}

/// What people are told of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// The model, as people know it.
    pub model: String,
    /// Keys that were changed and wait for the next start.
    pub waiting: Vec<String>,
    /// What is wrong with the configuration as it stands now, so that it is not in force.
    pub unusable: Option<String>,
}

/// How something stands that the program around the API sees to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub ok: bool,
    pub detail: String,
    /// What is to be done, where something is.
    pub remedy: Option<&'static str>,
}

/// A tool that an agent can be granted, as a whole or by action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grantable {
    pub tool: String,
    pub actions: Vec<String>,
}

/// The API as it runs.
pub(crate) struct App {
    pub(crate) api: Api,
    pub(crate) callers: CallerCache,
    /// Wrong credentials, by who sent them.
    pub(crate) failures: Limiter<Origin>,
    pub(crate) requests: Limiter<Option<TokenId>>,
    pub(crate) memory: BodyMemory,
    pub(crate) routes: Routes,
    pub(crate) shutdown: CancellationToken,
}

impl App {
    pub(crate) fn new(api: Api, routes: Routes, shutdown: CancellationToken) -> Self {
        let Config {
            failed_auth_per_minute,
            requests_per_second,
            requests_burst,
            buffered_bytes,
            json_bytes,
            chat_body_bytes,
            ..
        } = api.config;
        Self {
            api,
            callers: CallerCache::default(),
            failures: Limiter::new(
                failed_auth_per_minute,
                failed_auth_per_minute,
                Duration::from_mins(1),
            ),
            requests: Limiter::new(requests_burst, requests_per_second, Duration::from_secs(1)),
            memory: BodyMemory::new(buffered_bytes, json_bytes.max(chat_body_bytes)),
            routes,
            shutdown,
        }
    }
}
