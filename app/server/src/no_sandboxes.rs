//! One machine without a cluster has nowhere to confine a plugin: it runs none, and says so.

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

fn refused() -> SandboxError {
    SandboxError::Unsupported(
        "each needs a Pod of its own, and this is one machine without a cluster; install Famulus \
         in a cluster, which may be a single node"
            .to_owned(),
    )
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
