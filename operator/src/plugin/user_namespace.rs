//! Whether a plugin's Pods get a user namespace.
//!
//! No node says beforehand whether a Pod of some shape starts in one: gVisor does not, some runtimes
//! do not, some file systems of volumes do not. So it is tried, and what the node said decides, for
//! this node and this shape of Pods alone. It is never lowered silently: a condition and an event say
//! so.
//!
//! ```text
//! asked ─► a node refuses ─► asked, away from it ─► no other node takes it ─► without, on that node alone
//!   ▲                                                                                   │
//!   └── after a day; when the owner asks for a new build; when those nodes take it no more
//! ```

use std::collections::BTreeSet;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec,
};

use super::observe::Observed;
use super::pod_status::{self, Trouble};
use super::record::{NodeRefusal, Record, Shape};
use super::refusal::{self, asks};
use super::validate::Valid;
use crate::settings::{Pods, UserNamespaces};

/// How long a refusal holds: what is upgraded in the meantime is tried again.
const HELD: SignedDuration = SignedDuration::from_hours(24);

/// Nodes that are tried before all others are taken to be like them.
const MOST_TRIED: usize = 3;

/// How a node is found by its name.
const NAME: &str = "metadata.name";

/// Whether Pods ask for a user namespace, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserNamespace {
    /// The Pod has one or does not start.
    Required,
    /// It was not tried, or it works; these nodes refused it.
    Preferred { away_from: BTreeSet<String> },
    /// The installation wants none.
    Off,
    /// The class has a kernel of its own, and does not start in one.
    OwnKernel,
    /// These nodes refused it, and no other takes the Pod: it runs there, without.
    Refused { by: BTreeSet<String> },
}

impl UserNamespace {
    pub fn is_asked(&self) -> bool {
        match self {
            Self::Required | Self::Preferred { .. } => true,
            Self::Off | Self::OwnKernel | Self::Refused { .. } => false,
        }
    }

    /// The nodes that such Pods keep to, or keep away from.
    pub fn node_affinity(&self) -> Option<NodeAffinity> {
        let terms = match self {
            Self::Preferred { away_from } if !away_from.is_empty() => {
                vec![term(away_from.iter().map(|node| field("NotIn", node)))]
            }
            Self::Refused { by } => by.iter().map(|node| term([field("In", node)])).collect(),
            Self::Required | Self::Preferred { .. } | Self::Off | Self::OwnKernel => return None,
        };
        Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: terms,
            }),
            ..NodeAffinity::default()
        })
    }

    /// Whether a Pod was made as it would be made now.
    pub fn is_of(&self, pod: &PodSpec) -> bool {
        let affinity = pod.affinity.as_ref().and_then(|it| it.node_affinity.as_ref());
        (pod.host_users == Some(false)) == self.is_asked()
            && affinity == self.node_affinity().as_ref()
    }
}

/// Every one of them must hold.
fn term(fields: impl IntoIterator<Item = NodeSelectorRequirement>) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_fields: Some(fields.into_iter().collect()),
        ..NodeSelectorTerm::default()
    }
}

fn field(operator: &str, node: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: NAME.to_owned(),
        operator: operator.to_owned(),
        values: Some(vec![node.to_owned()]),
    }
}

pub fn decide(pods: &Pods, shape: &Shape, record: &Record) -> UserNamespace {
    let own_kernel =
        shape.class.as_ref().is_some_and(|class| pods.own_kernel_classes.contains(class));
    match pods.user_namespaces {
        UserNamespaces::Off => UserNamespace::Off,
        _ if own_kernel => UserNamespace::OwnKernel,
        UserNamespaces::Required => UserNamespace::Required,
        UserNamespaces::Preferred => {
            let nodes = nodes(record, shape);
            let everywhere = record.nowhere_else.as_ref() == Some(shape);
            if !nodes.is_empty() && (everywhere || nodes.len() >= MOST_TRIED) {
                UserNamespace::Refused { by: nodes }
            } else {
                UserNamespace::Preferred { away_from: nodes }
            }
        }
    }
}

/// The nodes that refused Pods of this shape.
fn nodes(record: &Record, shape: &Shape) -> BTreeSet<String> {
    let of_shape = record.refusals.iter().filter(|refusal| refusal.shape == *shape);
    of_shape.map(|refusal| refusal.node.clone()).collect()
}

/// The refusal of a Pod that there is now.
pub fn refused(shape: &Shape, valid: &Valid, observed: &Observed) -> Option<NodeRefusal> {
    observed.pods.iter().find_map(|pod| {
        let spec = pod.spec.as_ref()?;
        let same = spec.runtime_class_name == shape.class
            && pod_status::has_claim(pod) == shape.claim
            && pod.metadata.deletion_timestamp.is_none();
        let said = refusal::of(pod, observed.sandbox_events(pod)).filter(|_| same)?;
        Some(NodeRefusal {
            node: spec.node_name.clone()?,
            shape: shape.clone(),
            said,
            at: observed.now,
            refresh: valid.refresh.clone(),
        })
    })
}

/// Takes in what nodes said, and forgets what does not hold any more.
pub fn update_record(record: &mut Record, shape: &Shape, valid: &Valid, observed: &Observed) {
    record.refusals.retain(|refusal| {
        observed.now.duration_since(refusal.at) < HELD && refusal.refresh == valid.refresh
    });
    if let Some(refusal) = refused(shape, valid, observed)
        && !nodes(record, shape).contains(&refusal.node)
    {
        record.refusals.push(refusal);
    }
    let nodes = nodes(record, shape);
    if nodes.is_empty() {
        record.nowhere_else = None;
        return;
    }
    let waits = |made: &UserNamespace| {
        observed.pods.iter().any(|pod| {
            let spec = pod.spec.as_ref().filter(|spec| made.is_of(spec));
            spec.is_some() && is_unschedulable(pod, observed)
        })
    };
    if waits(&UserNamespace::Preferred { away_from: nodes.clone() }) {
        record.nowhere_else = Some(shape.clone());
    }
    // Cordoned, full or gone. Beside a runner that serves, another waits for room there.
    let serves = observed.runners().any(|pod| pod_status::is_ready(pod));
    if waits(&UserNamespace::Refused { by: nodes }) && !serves {
        record.refusals.retain(|refusal| refusal.shape != *shape);
        record.nowhere_else = None;
    }
}

fn is_unschedulable(pod: &Pod, observed: &Observed) -> bool {
    matches!(pod_status::start(pod, observed.now), Some(Trouble::Unschedulable(_)))
}

/// Whether a Pod that does not do its work should be made anew: a node refused it, or nothing of it
/// runs yet, and it would be made in another way now.
pub fn is_outdated(pod: &Pod, now: &UserNamespace, observed: &Observed) -> bool {
    let differs = pod.spec.as_ref().is_some_and(|spec| !now.is_of(spec));
    let refused = asks(pod) && refusal::of(pod, observed.sandbox_events(pod)).is_some();
    differs && (refused || !pod_status::has_begun(pod))
}
