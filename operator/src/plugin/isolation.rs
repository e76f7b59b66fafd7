//! What was seen of a plugin's Pods from inside: by the probe, and by the runner itself.

use std::sync::Arc;

use famulus_protocol::revision::Network;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::build::containers::accepts_open_network;
use super::observe::Observed;
use super::pod_status;
use super::record::{ProbeResult, Record};
use super::refusal::asks;
use super::validate::Valid;
use crate::settings::Pods;

/// Takes in what the newest probe found.
pub fn update_record(record: &mut Record, valid: &Valid, observed: &Observed, pods: &Pods) {
    // Of a Pod of another class nothing follows for this one.
    let found = observed.pods.iter().filter_map(|pod| {
        let class = pod.spec.as_ref().and_then(|spec| spec.runtime_class_name.clone());
        let probed = pod_status::probed(pod).filter(|_| class == valid.class)?;
        Some((pod.creation_timestamp(), class, probed, asks(pod)))
    });
    if let Some((_, class, probed, asked)) = found.max_by_key(|(created, ..)| created.clone()) {
        record.seen = Some(ProbeResult {
            network: probed.network,
            detail: probed.detail,
            user_namespace: probed.user_namespace,
            asked: Some(asked),
            node: probed.node,
            class,
        });
    } else if record.seen.as_ref().is_some_and(|seen| seen.class != valid.class) {
        record.seen = None;
    }
    if !pods.accept_open_network {
        of_runner(record, valid, observed);
    }
}

/// Whether runners are up that run in an open network, which is no longer accepted.
pub fn is_recalled(observed: &Observed, pods: &Pods) -> bool {
    !pods.accept_open_network && observed.runners().any(|pod| accepts_open_network(pod))
}

/// A runner looks for itself, and takes calls only in a closed network, unless it was started to take
/// them in any. A Pod that asked for a user namespace and runs has one.
fn of_runner(record: &mut Record, valid: &Valid, observed: &Observed) {
    let tells = |pod: &&Arc<Pod>| pod_status::is_ready(pod) && !accepts_open_network(pod);
    let Some(pod) = observed.runners().find(tells) else { return };
    let Some(spec) = &pod.spec else { return };
    let asked = asks(pod);
    let is_known = record.seen.as_ref().is_some_and(|seen| {
        seen.network == Network::Closed && seen.asked.is_none_or(|before| before == asked)
    });
    if is_known || spec.runtime_class_name != valid.class {
        return;
    }
    // What was seen of a Pod that had not asked alike says nothing of this one.
    let alike = record.seen.as_ref().filter(|seen| seen.asked.is_none_or(|before| before == asked));
    let namespace = alike.map(|seen| seen.user_namespace);
    record.seen = Some(ProbeResult {
        network: Network::Closed,
        detail: "its runner found it closed".to_owned(),
        user_namespace: namespace.unwrap_or(asked),
        asked: Some(asked),
        // What a probe in an open network reached says nothing of a closed one.
        node: None,
        class: spec.runtime_class_name.clone(),
    });
}
