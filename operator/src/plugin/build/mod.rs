//! What there should be, written out: pure, and it cannot fail.
//!
//! ```text
//! Valid + Plan ─► identity, mounted, state, runner, build and its order
//! ```

pub mod containers;
mod identity;
mod job;
mod mounted;
mod pod;
mod runner;
mod state;

pub use pod::EgressClass;

use std::collections::BTreeMap;

use famulus_crds::bearer;
use famulus_crds::labels::{MANAGED_BY, OPERATOR, PLUGIN, RELEASE};
use famulus_crds::plugin::Plugin;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use sha2::{Digest, Sha256};

use super::plan::Plan;
use super::validate::Valid;
use crate::settings::Pods;

/// The annotation with the user that a plugin's Pods run as, so that it stays.
pub const USER: &str = "famulus.dev/user";

/// Everything that should be there for one Plugin.
#[derive(Clone, Debug)]
pub struct Desired {
    pub identity: ServiceAccount,
    pub mounted: Secret,
    pub state: Option<PersistentVolumeClaim>,
    pub runner: Deployment,
    /// A build that should begin, and the Secret with its order.
    pub build: Option<(Secret, Job)>,
}

/// All that objects are written from.
#[derive(Clone, Copy)]
pub struct BuildInput<'a> {
    pub valid: &'a Valid,
    pub plan: &'a Plan,
    pub pods: &'a Pods,
    /// The user that the plugin's Pods run as.
    pub user: i64,
    pub root_key: &'a [u8],
    /// What the bearers of backups follow from, where there are backups.
    pub keeper_key: Option<&'a [u8]>,
}

pub fn build(input: BuildInput<'_>) -> Desired {
    Desired {
        identity: identity::write(input),
        mounted: mounted::write(input),
        state: input.plan.wants_claim.then(|| state::write(input)),
        runner: runner::write(input),
        build: input.plan.order.as_ref().map(|order| job::write(input, order)),
    }
}

/// The configuration that a plugin was given before.
pub fn mounted_values(mounted: &Secret) -> Option<BTreeMap<String, String>> {
    mounted::values(mounted)
}

/// The digest of what a runner works with: configuration and revision. Another one has another
/// number.
pub fn content(valid: &Valid, plan: &Plan) -> String {
    mounted::content(valid, plan)
}

impl BuildInput<'_> {
    fn bearer(&self) -> String {
        bearer::runner(self.root_key, &self.valid.uid, self.plan.record.rendered)
    }

    fn keeper(&self) -> String {
        let derive = |key| bearer::keeper(key, &self.valid.uid, self.plan.record.rendered);
        self.keeper_key.map(derive).unwrap_or_default()
    }

    fn meta(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.valid.namespace.clone()),
            labels: Some(self.labels()),
            owner_references: Some(vec![self.owner()]),
            ..ObjectMeta::default()
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        [(MANAGED_BY, OPERATOR), (PLUGIN, &self.valid.stem), (RELEASE, &self.pods.release)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: Plugin::api_version(&()).into_owned(),
            kind: Plugin::kind(&()).into_owned(),
            name: self.valid.object.clone(),
            uid: self.valid.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// The first letters of a digest, for annotations.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes)[..10])
}
