//! The Secret that the runner mounts. Its annotation holds the operator's record.

use std::collections::BTreeMap;

use famulus_crds::names::{Child, child};
use famulus_protocol::revision::Wanted;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use super::super::plan::Plan;
use super::super::record::RECORD;
use super::super::validate::Valid;
use super::{BuildInput, digest};

/// The keys of the Secret, and so the names of the files.
pub(super) const CONFIG: &str = "config.json";
pub(super) const BEARER: &str = "bearer";
pub(super) const WANTED: &str = "wanted.json";
/// The bearer of backups. Empty where the operator has no key for it: a mount wants all its files.
pub(super) const KEEPER: &str = "keeper";
pub(super) const PASSWD: &str = "passwd";

pub(super) fn write(input: BuildInput<'_>) -> Secret {
    let plan = input.plan;
    let mut metadata = input.meta(child(&input.valid.object, Child::Mounted));
    metadata.annotations = Some([(RECORD.to_owned(), plan.record.text())].into());
    let data = BTreeMap::from([
        (CONFIG.to_owned(), ByteString(config(plan))),
        (BEARER.to_owned(), ByteString(input.bearer().into_bytes())),
        (WANTED.to_owned(), ByteString(wanted(input.valid, plan))),
        (KEEPER.to_owned(), ByteString(input.keeper().into_bytes())),
        (PASSWD.to_owned(), ByteString(passwd(input.user))),
    ]);
    Secret { metadata, type_: Some("Opaque".to_owned()), data: Some(data), ..Secret::default() }
}

/// The configuration in a Secret that was written before.
pub(super) fn values(mounted: &Secret) -> Option<BTreeMap<String, String>> {
    let file = mounted.data.as_ref()?.get(CONFIG)?;
    serde_json::from_slice(&file.0).ok()
}

pub(super) fn content(_: &Valid, plan: &Plan) -> String {
    let revision = plan.record.serving.as_ref().map(|serving| serving.digest.as_str());
    let mut bytes = config(plan);
    bytes.push(0);
    bytes.extend_from_slice(revision.unwrap_or_default().as_bytes());
    digest(&bytes)
}

/// So that the plugin's user has a name and a home, as many programs expect.
pub(super) fn passwd(user: i64) -> Vec<u8> {
    format!(
        "root:x:0:0::/root:/usr/sbin/nologin\n\
         plugin:x:{user}:{user}::/state/cache/home:/bin/sh\n\
         nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
    )
    .into_bytes()
}

fn config(plan: &Plan) -> Vec<u8> {
    // A map of texts always becomes JSON.
    serde_json::to_vec_pretty(&plan.config).unwrap_or_default()
}

fn wanted(valid: &Valid, plan: &Plan) -> Vec<u8> {
    let wanted = Wanted {
        plugin: valid.name.clone(),
        uid: valid.uid.clone(),
        rendered: plan.record.rendered,
        revision: plan.record.serving.as_ref().map(|serving| serving.digest.clone()),
        awaits: plan.awaits.clone(),
    };
    serde_json::to_vec(&wanted).unwrap_or_default()
}
