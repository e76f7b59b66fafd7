//! What connects the app with runners, beside calls.
//!
//! ```text
//! sandbox ── RunnerDemand ──► store    which of all processes asks for a runner, and for none
//! api     ── Runners ───────► sandbox  who calls back, and with what
//! ```

use crate::ids::PersonId;
use crate::sandbox::{SandboxError, SandboxResult};
use async_trait::async_trait;
use std::fmt;
use std::net::IpAddr;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// When plugins were used, over all processes, and who of them acts on it.
///
/// A plugin is named here by its UID, so that one made anew has no past. Time is that of the store.
#[async_trait]
pub trait RunnerDemand: Send + Sync + 'static {
    /// Notes that these plugins were used now.
    async fn used(&self, plugins: &[String]) -> Result<(), DemandError>;

    /// Whether the caller is the one that asks for a runner. It counts as use. Nobody else is,
    /// until somebody was let stop, or `again` has passed: the one may have died.
    async fn may_start(&self, plugin: &str, again: Duration) -> Result<bool, DemandError>;

    /// Whether the caller is the one that lets the runner end: nobody used the plugin for `idle`.
    /// Nobody else is, until somebody was let start, or `again` has passed. A plugin that was never
    /// heard of counts as used now.
    async fn may_stop(
        &self,
        plugin: &str,
        idle: Duration,
        again: Duration,
    ) -> Result<bool, DemandError>;
}

#[derive(Debug, thiserror::Error)]
#[error("who starts and ends runners could not be settled; see whether the database answers")]
pub struct DemandError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Bytes of what a runner delivers, files apart: the protocol's limit, for those who do not speak it.
pub const DELIVERY_BYTES: usize = (8 * 1024 + 256) * 1024;

/// Where somebody calls from: what a bearer alone does not prove.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    Address(IpAddr),
    /// A socket that stands in the sandboxes of one plugin alone, by the plugin's UID.
    Door(Arc<str>),
}

/// An address may be written in two ways, and is the same.
impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(to, "{address}"),
            Self::Door(plugin) => write!(to, "the door of {plugin}"),
        }
    }
}

/// A socket that stands in the sandboxes of one plugin and nowhere else, which proves whose a call is.
#[derive(Debug)]
pub struct Door {
    /// The UID of the plugin.
    pub plugin: Arc<str>,
    pub listener: UnixListener,
    /// Ends it, and every connection that came through it.
    pub closed: CancellationToken,
}

/// What somebody who calls from inside a sandbox authenticates with.
#[derive(Clone)]
pub struct RunnerCredentials<'a> {
    /// The UID of its Plugin.
    pub plugin: &'a str,
    /// The number of what it was given.
    pub rendered: i64,
    pub bearer: &'a str,
    /// Only a sandbox of that plugin may show its bearer.
    pub from: Origin,
}

/// The runners as callers: they authenticate, and deliver results.
#[async_trait]
pub trait Runners: Send + Sync + 'static {
    /// The name of the plugin whose runner or build these are of; `None` when they are not valid.
    fn authenticate(&self, credentials: RunnerCredentials<'_>) -> Option<String>;

    /// What a runner delivers of the call `id`, the body of a callback as it came, with the files
    /// of it stored for `person`. Delivering it again gives the same, while the runner has it.
    async fn collect(
        &self,
        plugin: &str,
        id: &str,
        delivery: &[u8],
        person: PersonId,
    ) -> Result<SandboxResult, SandboxError>;
}
