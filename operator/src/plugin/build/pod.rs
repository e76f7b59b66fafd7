//! The Pods of the sandbox: what all of them have.

use std::collections::BTreeMap;

use famulus_crds::labels::{ALLOWED, CALLBACK, EGRESS, PART, PLUGIN, Part};
use famulus_crds::names::{Child, child};
use k8s_openapi::api::core::v1::{
    Affinity, Container, EmptyDirVolumeSource, KeyToPath, LocalObjectReference,
    PersistentVolumeClaimVolumeSource, PodAffinity, PodAffinityTerm, PodDNSConfig,
    PodDNSConfigOption, PodSecurityContext, PodSpec, SeccompProfile, SecretVolumeSource, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::BuildInput;
use super::job::ORDER;
use super::mounted::{BEARER, CONFIG, KEEPER, PASSWD, WANTED};
use crate::plugin::plan;

/// Which egress class the policies give a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressClass {
    None,
    Internet,
}

impl EgressClass {
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Internet => "internet",
        }
    }
}

/// Ours only: nothing that an owner wrote becomes a label, so that no policy can be chosen by it.
pub(super) fn labels(
    input: BuildInput<'_>,
    part: Part,
    egress: EgressClass,
) -> BTreeMap<String, String> {
    let mut labels = input.labels();
    let own = [(PART, part.name()), (EGRESS, egress.name()), (CALLBACK, ALLOWED)];
    labels.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    labels
}

pub(super) fn spec(
    input: BuildInput<'_>,
    init: Vec<Container>,
    containers: Vec<Container>,
    volumes: Vec<Volume>,
) -> PodSpec {
    let pods = input.pods;
    let plan = input.plan;
    let secrets = pods.pull_secrets.iter().cloned();
    let secrets = secrets.map(|name| LocalObjectReference { name }).collect::<Vec<_>>();
    PodSpec {
        service_account_name: Some(child(&input.valid.object, Child::Identity)),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        host_users: plan.user_namespace.is_asked().then_some(false),
        runtime_class_name: plan.shape.class.clone(),
        security_context: Some(security(input.user)),
        dns_policy: Some("None".to_owned()),
        dns_config: Some(PodDNSConfig {
            nameservers: Some(vec![pods.resolver.to_string()]),
            options: Some(vec![PodDNSConfigOption {
                name: Some("ndots".to_owned()),
                value: Some("1".to_owned()),
            }]),
            searches: None,
        }),
        affinity: affinity(input),
        node_selector: Some(pods.node_selector.clone()).filter(|labels| !labels.is_empty()),
        tolerations: Some(pods.tolerations.clone()).filter(|list| !list.is_empty()),
        image_pull_secrets: Some(secrets).filter(|list| !list.is_empty()),
        init_containers: Some(init).filter(|list| !list.is_empty()),
        containers,
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

/// All three ids, since a group that is left out is root's.
fn security(user: i64) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(user),
        run_as_group: Some(user),
        fs_group: Some(user),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        ..PodSecurityContext::default()
    }
}

fn affinity(input: BuildInput<'_>) -> Option<Affinity> {
    let affinity = Affinity {
        node_affinity: input.plan.user_namespace.node_affinity(),
        pod_affinity: input.plan.shape.claim.then(|| beside(input)),
        ..Affinity::default()
    };
    (affinity != Affinity::default()).then_some(affinity)
}

/// Build and runner work on one volume, and so on one node.
fn beside(input: BuildInput<'_>) -> PodAffinity {
    let parts = [Part::Runner, Part::Build].map(|part| part.name().to_owned());
    let term = PodAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: Some([(PLUGIN.to_owned(), input.valid.stem.clone())].into()),
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: PART.to_owned(),
                operator: "In".to_owned(),
                values: Some(parts.into()),
            }]),
        }),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    PodAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![term]),
        ..PodAffinity::default()
    }
}

/// `/state`: the claim, or room on the node that ends with the Pod.
pub(super) fn state(input: BuildInput<'_>) -> Volume {
    if matches!(input.plan.volume, plan::Volume::Scratch) {
        return Volume {
            name: "state".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(Quantity(input.pods.state_size.0.clone())),
                ..EmptyDirVolumeSource::default()
            }),
            ..Volume::default()
        };
    }
    Volume {
        name: "state".to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: child(&input.valid.object, Child::State),
            read_only: None,
        }),
        ..Volume::default()
    }
}

/// Room in memory, where more than `size` is refused at once.
pub(super) fn memory(name: &str, size: &str) -> Volume {
    empty(name, size, Some("Memory"))
}

/// Room on the node's disk, where more than `size` ends the Pod after a while.
pub(super) fn disk(name: &str, size: &str) -> Volume {
    empty(name, size, None)
}

fn empty(name: &str, size: &str, medium: Option<&str>) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: medium.map(str::to_owned),
            size_limit: Some(Quantity(size.to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// What the runner mounts.
pub(super) fn mounted(input: BuildInput<'_>) -> Volume {
    let keys = [CONFIG, BEARER, WANTED, KEEPER, PASSWD];
    secret("mounted", child(&input.valid.object, Child::Mounted), &keys)
}

/// The configuration alone: the build runs code of the plugin, and is given no bearer.
pub(super) fn config(input: BuildInput<'_>) -> Volume {
    secret("config", child(&input.valid.object, Child::Mounted), &[CONFIG, PASSWD])
}

/// The volumes with the credentials for packages, and for private repositories.
pub(super) const CREDENTIALS: &str = "packages";
pub(super) const REPOSITORIES: &str = "repositories";

/// The owner's credentials for packages, of which the build says if they are not there: a Pod that
/// waits for a Secret says nothing.
pub(super) fn credentials(input: BuildInput<'_>) -> Option<Volume> {
    lent(CREDENTIALS, input.pods.packages.secret.as_ref())
}

/// Those for private repositories, of which the bundling says the same.
pub(super) fn repositories(input: BuildInput<'_>) -> Option<Volume> {
    lent(REPOSITORIES, input.pods.repositories.as_ref())
}

fn lent(volume: &str, secret: Option<&String>) -> Option<Volume> {
    let source = SecretVolumeSource {
        secret_name: Some(secret?.clone()),
        optional: Some(true),
        default_mode: Some(0o440),
        ..SecretVolumeSource::default()
    };
    Some(Volume { name: volume.to_owned(), secret: Some(source), ..Volume::default() })
}

/// The order of a bundling container, in the Secret of this name.
pub(super) fn order(name: String) -> Volume {
    secret("order", name, &[ORDER, BEARER, PASSWD])
}

fn secret(volume: &str, name: String, keys: &[&str]) -> Volume {
    let item = |key: &&str| KeyToPath {
        key: (*key).to_owned(),
        path: (*key).to_owned(),
        ..KeyToPath::default()
    };
    Volume {
        name: volume.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(name),
            items: Some(keys.iter().map(item).collect()),
            // For the group, which is the plugin's own.
            default_mode: Some(0o440),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}
