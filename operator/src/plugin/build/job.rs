//! A build: look at the network, make a bundle, unpack it and run the init script.

use famulus_crds::labels::Part;
use famulus_crds::names::{Child, child};
use famulus_protocol::revision::{BuildOrder, BuildSource};
use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::mounted::{BEARER, PASSWD, passwd};
use super::pod;
use super::{BuildInput, containers};
use crate::plugin::plan::{Order, Steps};

/// The key of the order, and so the name of its file.
pub(super) const ORDER: &str = "build.json";

/// Seconds that a build may take: a clone, dependencies and 5 min of init script.
const LONGEST: i64 = 900;

/// Seconds that a build that ended stays to be looked at.
const KEPT: i32 = 3600;

pub(super) fn write(input: BuildInput<'_>, order: &Order) -> (Secret, Job) {
    let name = child(&input.valid.object, Child::Build(order.key));
    (secret(input, order, name.clone()), job(input, order, name))
}

fn secret(input: BuildInput<'_>, order: &Order, name: String) -> Secret {
    let data = [
        (ORDER.to_owned(), ByteString(text(input, &order.source))),
        (BEARER.to_owned(), ByteString(input.bearer().into_bytes())),
        (PASSWD.to_owned(), ByteString(passwd(input.user))),
    ];
    Secret {
        metadata: input.meta(name),
        type_: Some("Opaque".to_owned()),
        data: Some(data.into()),
        ..Secret::default()
    }
}

/// An order in JSON, as `famulus-runner bundle` reads it.
fn text(input: BuildInput<'_>, source: &BuildSource) -> Vec<u8> {
    let order = BuildOrder {
        plugin: input.valid.name.clone(),
        uid: input.valid.uid.clone(),
        rendered: input.plan.record.rendered,
        callback: format!("http://{}", input.pods.callback),
        source: source.clone(),
        allow_hosts: input.pods.allow_hosts.clone(),
    };
    // Texts and lists of them always become JSON.
    serde_json::to_vec(&order).unwrap_or_default()
}

fn job(input: BuildInput<'_>, order: &Order, name: String) -> Job {
    let is_fetched = matches!(order.source, BuildSource::Git { .. });
    let (probe, bundle) = (containers::probe(input), containers::bundle(input, is_fetched));
    let (init, last) = match order.steps {
        Steps::Bundle => (vec![probe], bundle),
        Steps::All => (vec![probe, bundle], containers::build(input)),
    };
    let mut volumes = vec![pod::order(name.clone())];
    if order.steps == Steps::All {
        volumes.extend([pod::config(input), pod::state(input), pod::memory("plugins", "1Mi")]);
        volumes.extend(pod::credentials(input));
    }
    if is_fetched {
        volumes.extend(pod::repositories(input));
    }
    // A bundle has 64 MiB at most, and its clone some history.
    volumes.extend([pod::disk("work", "512Mi"), pod::memory("tmp", "64Mi")]);
    let spec = PodSpec {
        restart_policy: Some("Never".to_owned()),
        termination_grace_period_seconds: Some(10),
        ..pod::spec(input, init, vec![last], volumes)
    };
    Job {
        metadata: input.meta(name),
        spec: Some(JobSpec {
            // The operator decides whether it is tried again.
            backoff_limit: Some(0),
            active_deadline_seconds: Some(LONGEST),
            ttl_seconds_after_finished: Some(KEPT),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(pod::labels(input, Part::Build, order.reach(input.valid))),
                    ..ObjectMeta::default()
                }),
                spec: Some(spec),
            },
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}
