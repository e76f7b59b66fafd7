//! Reconciles one Plugin: makes the cluster what it says.
//!
//! ```text
//! observe       what there is                              reads
//! validate      what the owner means                       pure
//! plan          what is to be done                         pure
//! build         what there should be, written out          pure
//! apply         makes it so, where it is not               writes
//! status        what the owner is told                     pure
//! report        tells it, where it changed                 writes
//! ```
//!
//! What holds:
//!
//! - Nothing is remembered that decides: caches and process may be lost at any await. What must last
//!   stands in the annotation of the mounted Secret ([`record`]).
//! - A settled Plugin costs no write, however often it is looked at.
//! - A build that fails leaves what serves alone.

pub mod apply;
mod brought;
pub mod build;
pub mod error;
pub mod isolation;
pub mod observe;
pub mod plan;
pub mod pod_status;
mod quantity;
pub mod record;
pub mod refusal;
pub mod replace;
mod report;
pub mod status;
pub mod user_namespace;
pub mod validate;

use std::sync::Arc;
use std::time::Duration;

use famulus_crds::plugin::Plugin;
use kube::ResourceExt;

use self::error::Error;
use self::observe::{Config, Observed};
use self::plan::{Build, Plan};
use crate::context::Context;

/// Until a settled Plugin is looked at again.
const SETTLED: Duration = Duration::from_mins(10);

/// Until the owner's Secret is read again, of which no watch tells: of a plugin that runs or waits for
/// a value, and of any other.
const CONFIG_WANTED: Duration = Duration::from_secs(15);
const CONFIG_IDLE: Duration = Duration::from_mins(2);

/// Until a Pod that should start is looked at again, of which nothing is heard when it does not.
const STARTING: Duration = Duration::from_secs(10);

/// Until a Plugin is looked at again whose name is another's.
const REFUSED: Duration = Duration::from_secs(30);

/// Returns when it wants to be called again.
pub async fn reconcile(plugin: Arc<Plugin>, context: &Context) -> Result<Duration, Error> {
    if plugin.metadata.deletion_timestamp.is_some() {
        // Its children go with it, by their owner references.
        return Ok(SETTLED);
    }
    let observed = observe::observe(plugin, context).await?;
    let valid = match validate::validate(&observed, &context.pods) {
        Ok(valid) => valid,
        Err(refusal) => {
            report::report(context, &observed, status::refused(&refusal, &observed)).await?;
            return Ok(REFUSED);
        }
    };
    let plan = plan::plan(&valid, &observed, &context.pods);
    let desired = build::build(build::BuildInput {
        valid: &valid,
        plan: &plan,
        pods: &context.pods,
        user: observed.user,
        root_key: &context.root_key,
        keeper_key: context.keeper_key.as_deref(),
    });
    // On the heap: it holds requests of every kind.
    Box::pin(apply::apply(context, &observed, &plan, desired)).await?;
    let status = status::of(&valid, &observed, &plan, &context.pods);
    report::report(context, &observed, status).await?;
    Ok(again(&observed, &plan))
}

fn again(observed: &Observed, plan: &Plan) -> Duration {
    let mut after = spread(observed);
    let starts = plan.replicas > 0 && !observed.runners().any(|pod| pod_status::is_ready(pod));
    if starts || matches!(plan.build, Build::Going(_)) || plan.place.is_none() {
        after = after.min(STARTING);
    }
    let failed = match &plan.build {
        Build::Failed(failure) => Some(failure),
        Build::Settled | Build::Going(_) | Build::Held => None,
    };
    for failure in failed.into_iter().chain(&plan.record.unfetched) {
        if record::is_final(&failure.reason) {
            continue;
        }
        let wait = failure.again_at().duration_since(observed.now);
        after = after.min(Duration::try_from(wait).unwrap_or_default() + Duration::from_secs(1));
    }
    match &observed.config {
        Config::NotAsked => {}
        // What is deleted now is noted next.
        Config::Brought { secret, .. } => {
            if secret.is_some() {
                after = after.min(Duration::from_secs(1));
            }
        }
        Config::Values { .. } if plan.replicas == 0 && plan.serving().is_some() => {
            after = after.min(CONFIG_IDLE);
        }
        Config::Values { .. }
        | Config::Missing(_)
        | Config::NotTheOwners(_)
        | Config::NotGranted { .. } => {
            after = after.min(CONFIG_WANTED);
        }
    }
    after
}

/// Not all at the same time: up to a fifth later, by the letters of the UID.
fn spread(observed: &Observed) -> Duration {
    let uid = observed.plugin.uid().unwrap_or_default();
    let part = uid.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte)) % 100;
    SETTLED + Duration::from_millis(part * 1200)
}
