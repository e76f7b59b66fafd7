//! The Deployment whose Pods run the plugin's tools.

use famulus_crds::labels::{PART, PLUGIN, Part};
use famulus_crds::names::{Child, child};
use famulus_crds::plugin::EgressMode;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pod::{self, EgressClass};
use super::{BuildInput, containers, digest};
use crate::plugin::plan::{Plan, Volume};
use crate::plugin::replace::SHAPE;

/// Seconds that a runner gets to end its calls: the longest is 5 min.
const GRACE: i64 = 330;

/// The annotation of Pods without a volume with the revision that they were started for.
const REVISION: &str = "famulus.dev/revision";

pub(super) fn write(input: BuildInput<'_>) -> Deployment {
    let template = template(input);
    // Values of our own types always become JSON.
    let shape = digest(&serde_json::to_vec(&template).unwrap_or_default());
    let mut metadata = input.meta(child(&input.valid.object, Child::Runner));
    metadata.annotations = Some([(SHAPE.to_owned(), shape)].into());
    let own = [(PLUGIN, input.valid.stem.as_str()), (PART, Part::Runner.name())];
    Deployment {
        metadata,
        spec: DeploymentSpec {
            replicas: Some(input.plan.replicas),
            revision_history_limit: Some(0),
            selector: LabelSelector {
                match_labels: Some(own.map(|(key, value)| (key.into(), value.into())).into()),
                match_expressions: None,
            },
            strategy: Some(strategy(input.plan)),
            template,
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

/// Two runners never work on one volume. Without a volume a new revision comes with a new Pod, and
/// the old one serves until it is ready, unless it must not.
fn strategy(plan: &Plan) -> DeploymentStrategy {
    match plan.volume {
        Volume::Claim => ends_first(),
        Volume::Scratch if plan.recalls => ends_first(),
        Volume::Scratch => DeploymentStrategy {
            type_: Some("RollingUpdate".to_owned()),
            rolling_update: Some(RollingUpdateDeployment {
                max_surge: Some(IntOrString::Int(1)),
                max_unavailable: Some(IntOrString::Int(0)),
            }),
        },
    }
}

fn ends_first() -> DeploymentStrategy {
    DeploymentStrategy { type_: Some("Recreate".to_owned()), rolling_update: None }
}

fn template(input: BuildInput<'_>) -> PodTemplateSpec {
    let plan = input.plan;
    // The runner begins at once: it looks at the network itself, and without a volume it takes its
    // revision itself. Each container before it would cost up to a second, which is how often the
    // kubelet looks.
    let mut volumes = vec![
        pod::mounted(input),
        pod::state(input),
        pod::disk("kept", "256Mi"),
        pod::memory("plugins", "1Mi"),
        pod::memory("tmp", "64Mi"),
    ];
    if containers::builds_in_runner(input) {
        volumes.extend(pod::credentials(input));
    }
    let serving = plan.record.serving.as_ref().filter(|_| plan.volume == Volume::Scratch);
    let annotations = serving.map(|it| [(REVISION.to_owned(), it.digest.clone())].into());
    let egress = match input.plan.egress {
        EgressMode::None => EgressClass::None,
        EgressMode::Internet => EgressClass::Internet,
    };
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(pod::labels(input, Part::Runner, egress)),
            annotations,
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            termination_grace_period_seconds: Some(GRACE),
            ..pod::spec(input, Vec::new(), vec![containers::runner(input)], volumes)
        }),
    }
}
