//! Where several processes may serve one database and there is no cluster, nobody knows on whose machine a plugin
//! is: none runs, and that is said.

use async_trait::async_trait;
use famulus_core::ids::PersonId;
use famulus_core::runner::{RunnerCredentials, Runners};
use famulus_core::sandbox::{
    PluginState, SandboxAnswer, SandboxCall, SandboxError, SandboxResult, Sandboxes,
};
use jiff::Timestamp;

/// No sandboxes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoSandboxes;

/// Why, and what to do about it.
pub(crate) const WHY: &str = "other processes may serve the same database from elsewhere; start it by \
                              `famulus up` with a database of its own, or install Famulus in a cluster";

fn refused() -> SandboxError {
    SandboxError::Unsupported(WHY.to_owned())
}

#[async_trait]
impl Sandboxes for NoSandboxes {
    async fn plugins(&self) -> Result<Vec<PluginState>, SandboxError> {
        Err(refused())
    }

    async fn run(&self, _: SandboxCall) -> Result<SandboxAnswer, SandboxError> {
        Err(refused())
    }

    async fn ask(
        &self,
        _: &str,
        _: &str,
        _: Timestamp,
        _: PersonId,
    ) -> Result<Option<SandboxAnswer>, SandboxError> {
        Err(refused())
    }

    async fn acknowledge(&self, _: &str, _: &str) {}

    async fn logs(&self, _: &str) -> Result<Vec<String>, SandboxError> {
        Err(refused())
    }
}

#[async_trait]
impl Runners for NoSandboxes {
    /// Nobody runs anywhere, so nobody calls from there.
    fn authenticate(&self, _: RunnerCredentials<'_>) -> Option<String> {
        None
    }

    async fn collect(
        &self,
        _: &str,
        _: &str,
        _: &[u8],
        _: PersonId,
    ) -> Result<SandboxResult, SandboxError> {
        Err(refused())
    }
}
