//! Makes what should be there, and writes nothing that is there already.
//!
//! A write is sent when the live object differs from the wanted one in a field that is wanted; so a
//! settled Plugin costs no write, also after a restart. What others added to an object is left alone.

use std::fmt::Debug;

use famulus_crds::labels::{OPERATOR, RENDERED};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::build::Desired;
use super::error::Error;
use super::observe::{Config, Observed};
use super::plan::Plan;
use super::quantity;
use super::replace::{self, SHAPE};
use crate::context::Context;

/// In the order in which the kubelet needs them. The record is written with the Secret, before what
/// follows from it.
pub async fn apply(
    context: &Context,
    observed: &Observed,
    plan: &Plan,
    desired: Desired,
) -> Result<(), Error> {
    let Desired { identity, mut mounted, state, runner, build } = desired;
    let writer = Writer { context };
    writer.settle(observed.identity.as_deref(), &identity).await?;
    if let (None, Some(state)) = (&observed.claim, &state) {
        writer.write(state).await?;
    }
    // The record names an order until it is gone.
    for order in plan.obsolete.iter().chain(&plan.delivered) {
        writer.delete_order(order).await?;
    }
    // Nobody else may have written a record meanwhile.
    mounted.metadata.resource_version =
        observed.mounted.as_ref().and_then(|live| live.metadata.resource_version.clone());
    writer.settle(observed.mounted.as_ref(), &mounted).await?;
    if let Config::Brought { secret: Some(secret), .. } = &observed.config {
        writer.delete_taken(secret).await?;
    }
    writer.touch(observed, plan).await?;
    writer.settle_runner(observed, plan, &runner).await?;
    for job in &plan.obsolete {
        writer.delete::<Job>(job).await?;
    }
    for pod in &plan.remains {
        writer.delete::<Pod>(pod).await?;
    }
    if let Some((order, job)) = build
        && !plan.obsolete.contains(&job.name_any())
    {
        writer.write(&order).await?;
        writer.write(&job).await?;
    }
    Ok(())
}

struct Writer<'a> {
    context: &'a Context,
}

impl Writer<'_> {
    async fn settle<K>(&self, live: Option<&K>, wanted: &K) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Serialize
            + DeserializeOwned
            + Clone
            + Debug,
    {
        match live {
            Some(live) if is_settled(live, wanted) => Ok(()),
            _ => self.write(wanted).await.map(drop),
        }
    }

    async fn write<K>(&self, wanted: &K) -> Result<K, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Serialize
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let name = wanted.name_any();
        let kind = K::kind(&()).into_owned();
        tracing::debug!(object.kind = %kind, object.name = %name, "writes an object");
        metrics::counter!("famulus_operator_writes_total", "kind" => kind.clone()).increment(1);
        let parameters = PatchParams::apply(OPERATOR).force();
        let written = self.api::<K>().patch(&name, &parameters, &Patch::Apply(wanted)).await;
        written.map_err(|source| Error::Apply { kind, name, source })
    }

    async fn settle_runner(
        &self,
        observed: &Observed,
        plan: &Plan,
        runner: &Deployment,
    ) -> Result<(), Error> {
        let live = observed.runner.as_deref();
        let shape = runner.annotations().get(SHAPE).map_or("", String::as_str);
        let at_once = plan.recalls || plan.idles;
        if at_once || !replace::interrupts(live, shape) {
            return self.settle(live, runner).await;
        }
        let Context { replacing, stores, .. } = self.context;
        match replacing.take(&runner.name_any(), &stores.runners) {
            Some(place) => {
                place.hold(&self.write(runner).await?);
                Ok(())
            }
            None => self.scale(live, runner).await,
        }
    }

    /// Others are being replaced: the number of runners alone is changed.
    async fn scale(&self, live: Option<&Deployment>, runner: &Deployment) -> Result<(), Error> {
        let wanted = runner.spec.replicas;
        if wanted == live.and_then(|live| live.spec.replicas) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"spec": {"replicas": wanted}}));
        let name = runner.name_any();
        let parameters =
            PatchParams { field_manager: Some(OPERATOR.into()), ..PatchParams::default() };
        let written = self.api::<Deployment>().patch(&name, &parameters, &patch).await;
        let kind = "Deployment".to_owned();
        written.map(drop).map_err(|source| Error::Apply { kind, name, source })
    }

    /// A mounted Secret arrives after about a minute; with a changed Pod, within a second.
    async fn touch(&self, observed: &Observed, plan: &Plan) -> Result<(), Error> {
        let rendered = plan.record.rendered.to_string();
        let changed = plan.record.rendered_at;
        for pod in observed.runners() {
            let told = pod.annotations().get(RENDERED) == Some(&rendered);
            let older = pod.creation_timestamp().map(|time| time.0) <= changed;
            if told || !older {
                continue;
            }
            let name = pod.name_any();
            let patch = Patch::Merge(json!({"metadata": {"annotations": {RENDERED: rendered}}}));
            let touched = self.api::<Pod>().patch(&name, &PatchParams::default(), &patch).await;
            match touched {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(source) => return Err(Error::Touch { name, source }),
            }
        }
        Ok(())
    }

    async fn delete_order(&self, job: &str) -> Result<(), Error> {
        // Read first: after a delete that found nothing, each reconcile would send one more.
        match self.context.secret(job).await? {
            Some(_) => self.delete::<Secret>(job).await,
            None => Ok(()),
        }
    }

    /// What was read, and none that came since.
    async fn delete_taken(&self, secret: &Secret) -> Result<(), Error> {
        let name = secret.name_any();
        let (uid, resource_version) = (secret.uid(), secret.resource_version());
        let preconditions = Some(Preconditions { uid, resource_version });
        let which = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.api::<Secret>().delete(&name, &which).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.code == 409 => Ok(()),
            Err(source) => Err(Error::Delete { kind: "Secret".to_owned(), name, source }),
        }
    }

    async fn delete<K>(&self, name: &str) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let deleted = self.api::<K>().delete(name, &DeleteParams::background()).await;
        match deleted {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(source) => {
                let kind = K::kind(&()).into_owned();
                Err(Error::Delete { kind, name: name.to_owned(), source })
            }
        }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.context.client.clone(), &self.context.namespace)
    }
}

/// Whether every field that is wanted is there.
pub fn is_settled<K: Serialize>(live: &K, wanted: &K) -> bool {
    match (serde_json::to_value(live), serde_json::to_value(wanted)) {
        (Ok(live), Ok(wanted)) => has(&live, &wanted),
        _ => false,
    }
}

fn has(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            live.get(key).map_or_else(|| is_empty(wanted), |live| has(live, wanted))
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len()
                && live.iter().zip(wanted).all(|(live, wanted)| has(live, wanted))
        }
        (Value::String(live), Value::String(wanted)) => {
            live == wanted || quantity::same(live, wanted)
        }
        (live, wanted) => live == wanted,
    }
}

/// What the API server does not keep.
fn is_empty(wanted: &Value) -> bool {
    match wanted {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_and_missing_is_a_difference() {
        let table = [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!({}), json!({"a": {}}), true),
            (json!({}), json!({"a": false}), false),
            (json!({"l": [{"n": 1, "d": 0}]}), json!({"l": [{"n": 1}]}), true),
            (json!({"l": [1, 2]}), json!({"l": [1]}), false),
            (json!({"cpu": "1"}), json!({"cpu": "1000m"}), true),
            (json!({"memory": "1536Mi"}), json!({"memory": "1.5Gi"}), true),
            (json!({"cpu": "1"}), json!({"cpu": "2"}), false),
        ];
        for (live, wanted, settled) in table {
            assert_eq!(is_settled(&live, &wanted), settled, "{live} {wanted}");
        }
    }
}
