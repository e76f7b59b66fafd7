//! Who calls back, and with what.

use async_trait::async_trait;
use famulus_core::ids::PersonId;
use famulus_core::runner::{RunnerCredentials, Runners};
use famulus_core::sandbox::{SandboxError, SandboxResult};
use famulus_protocol::{CallState, Delivery};
use subtle::ConstantTimeEq;

use crate::answer;
use crate::calls::{Calls, call_id};
use crate::home::{Home, KnownPlugin};
use crate::version;

/// A runner that was not given the newest yet speaks with an older bearer: it keeps as many.
const OLDER: i64 = 4;

/// The operator writes what it gives to a runner before it says so.
const NEWER: i64 = 1;

#[async_trait]
impl<H: Home> Runners for Calls<H> {
    fn authenticate(&self, credentials: RunnerCredentials<'_>) -> Option<String> {
        let known = self.home.plugin_by_uid(credentials.plugin)?;
        let now = known.rendered();
        let current = now.saturating_sub(OLDER).max(0)..=now.saturating_add(NEWER);
        let expected = self.home.bearer(&known, credentials.rendered);
        let right = bool::from(expected.as_bytes().ct_eq(credentials.bearer.as_bytes()));
        let there = self.home.owns(&known, &credentials.from);
        (right && there && current.contains(&credentials.rendered)).then(|| known.name().to_owned())
    }

    async fn collect(
        &self,
        plugin: &str,
        id: &str,
        delivery: &[u8],
        person: PersonId,
    ) -> Result<SandboxResult, SandboxError> {
        let id = call_id(id)?;
        let delivery: Delivery = serde_json::from_slice(delivery).map_err(|error| {
            SandboxError::Refused(format!("what was delivered is no result of a call: {error}"))
        })?;
        let Delivery { version, plugin: _, result } = delivery;
        if version::common(&[version]).is_none() || result.call != id {
            return Err(SandboxError::Refused(format!(
                "what was delivered is not the result of call `{id}` in a version that is known"
            )));
        }
        self.used.result_came(&id);
        let known = self.named(plugin)?;
        let result = match &self.home.runners(&known)[..] {
            [runner] => self.explain(result, runner, None).await,
            [] | [_, _, ..] => result,
        };
        let credentials = self.credentials(&known);
        // Its files are with the runner that has the call.
        let mut holder = None;
        if result.runs.iter().any(|run| !run.files.is_empty()) {
            for runner in self.home.runners(&known) {
                let state = self.client(&runner, &credentials).state(&id).await;
                if matches!(state, Ok(CallState::Ended { .. })) {
                    holder = Some(runner);
                    break;
                }
            }
        }
        let holder = holder.as_deref().map(|runner| self.client(runner, &credentials));
        Ok(answer::store(result, holder, &self.blobs, person).await)
    }
}
