//! Who calls from sandboxes, in a test: a bearer follows from a plugin's name, and only this machine's
//! first address has sandboxes, and a plugin's own door.

use async_trait::async_trait;
use famulus_core::{
    blob::Blobs as _,
    ids::PersonId,
    runner::{Origin, RunnerCredentials, Runners},
    sandbox::{RunOutput, SandboxError, SandboxResult, SandboxRun},
};
use famulus_store::Store;
use futures::{StreamExt as _, stream};
use std::net::{IpAddr, Ipv4Addr};

pub(crate) struct FakeRunners {
    pub(crate) store: Store,
}

pub(crate) fn bearer(plugin: &str) -> String {
    format!("bearer-of-{plugin}")
}

#[async_trait]
impl Runners for FakeRunners {
    fn authenticate(&self, credentials: RunnerCredentials<'_>) -> Option<String> {
        let RunnerCredentials { plugin, rendered, bearer: shown, from } = credentials;
        let name = plugin.strip_prefix("uid-")?;
        let there = match from {
            Origin::Address(address) => address == IpAddr::V4(Ipv4Addr::LOCALHOST),
            Origin::Door(of) => &*of == plugin,
        };
        (shown == bearer(name) && rendered == 1 && there).then(|| name.to_owned())
    }

    /// The body is what the tool said, and comes with a file.
    async fn collect(
        &self,
        _plugin: &str,
        _id: &str,
        delivery: &[u8],
        person: PersonId,
    ) -> Result<SandboxResult, SandboxError> {
        let file = stream::iter([Ok(bytes::Bytes::from_static(b"chart"))]).boxed();
        let file = self.store.put(person, "text/csv", 100, file).await.unwrap();
        let run = SandboxRun {
            output: RunOutput::Text(String::from_utf8(delivery.to_vec()).unwrap()),
            files: vec![("chart.csv".into(), file)],
            notes: Vec::new(),
            millis: 1,
        };
        Ok(SandboxResult { each: false, runs: vec![run] })
    }
}
