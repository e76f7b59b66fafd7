//! How the plugin's Pods are held: by the network, and on the node.

use famulus_crds::labels::REFRESH;
use famulus_crds::plugin::{Isolation, NetworkIsolation, Reason};
use famulus_protocol::revision::Network;

use super::super::plan::Build;
use super::super::pod_status::{Progress, Trouble};
use super::super::record::{NodeRefusal, ProbeResult};
use super::super::user_namespace::UserNamespace;
use super::{ReasonMessage, View};

impl View<'_> {
    pub(super) fn isolated(&self) -> ReasonMessage {
        let Some(seen) = &self.plan.record.seen else {
            let message = "its first Pod looks at the network before anything runs".to_owned();
            return (Reason::NetworkNotProbed, message);
        };
        let reason = match self.network() {
            None => Reason::NetworkNotProbed,
            Some(NetworkIsolation::Closed) => return closed(seen),
            Some(_) if self.pods.accept_open_network => Reason::OpenNetworkAccepted,
            Some(NetworkIsolation::Open) => Reason::NetworkOpen,
            Some(NetworkIsolation::Unknown) => Reason::NetworkUnknown,
        };
        (reason, seen.detail.clone())
    }

    pub(super) fn confined(&self) -> ReasonMessage {
        let plan = self.plan;
        let as_asked = |message: &str| (Reason::AsAsked, message.to_owned());
        if let Some(class) = &plan.shape.class
            && self.starts_nothing(class)
        {
            return (
                Reason::NoRuntimeClass,
                format!(
                    "the RuntimeClass {class} does not exist, or its Pods do not start; see \
                     kubectl get runtimeclasses, or choose another in spec.runner.runtimeClassName"
                ),
            );
        }
        if plan.user_namespace == UserNamespace::Required
            && let Some(refusal) = &plan.refused
        {
            let message = format!(
                "the node {} refuses its Pod a user namespace, and the installation requires one; \
                 use nodes that have them, or set plugins.userNamespaces to Preferred: {}",
                refusal.node, refusal.said
            );
            return (Reason::NoUserNamespace, message);
        }
        match &plan.user_namespace {
            UserNamespace::Off => as_asked("the installation uses no user namespaces"),
            UserNamespace::OwnKernel => as_asked("its Pods have a kernel of their own"),
            UserNamespace::Refused { .. } => (Reason::NoUserNamespace, self.refused()),
            UserNamespace::Required | UserNamespace::Preferred { .. } => match self.seen() {
                Some(seen) if seen.user_namespace => as_asked("its Pods have a user namespace"),
                Some(_) => (
                    Reason::NoUserNamespace,
                    "the node gave its Pod no user namespace; see whether its kernel and runtime \
                     support them"
                        .to_owned(),
                ),
                None => (
                    Reason::ConfinementNotProbed,
                    "its first Pod tells how it is confined".to_owned(),
                ),
            },
        }
    }

    /// What was seen of a Pod that had asked for a user namespace.
    fn seen(&self) -> Option<&ProbeResult> {
        self.plan.record.seen.as_ref().filter(|seen| seen.asked != Some(false))
    }

    /// Which nodes refused it, what one of them said, and until when that holds.
    fn refused(&self) -> String {
        let of_shape = |refusal: &&NodeRefusal| refusal.shape == self.plan.shape;
        let refusals: Vec<&NodeRefusal> =
            self.plan.record.refusals.iter().filter(of_shape).collect();
        let nodes: Vec<&str> = refusals.iter().map(|refusal| refusal.node.as_str()).collect();
        let said = refusals.last().map_or("", |refusal| refusal.said.as_str());
        format!(
            "it runs without a user namespace, on {} alone, where its Pod was refused one; it is \
             tried again after a day, or once the annotation {REFRESH} has another value; see \
             whether runtime and file system of the volume support them: {said}",
            nodes.join(", ")
        )
    }

    fn stuck(&self) -> bool {
        self.plan.build == Build::Going(Progress::Stuck)
            || self.plan.trouble == Some(Trouble::Stuck)
    }

    /// Whether the class is to blame: its Pods are refused by name, or do not start at all.
    fn starts_nothing(&self, class: &str) -> bool {
        let names_it = |message: &String| message.contains(class);
        let refused = match &self.plan.build {
            Build::Going(Progress::Unstartable(message)) => {
                names_it(message) || message.contains("gets no Pod")
            }
            Build::Going(_) | Build::Settled | Build::Failed(_) | Build::Held => false,
        };
        let runner = match &self.plan.trouble {
            Some(Trouble::Unstartable(message)) => names_it(message),
            _ => false,
        };
        refused || runner || (self.stuck() && !self.plan.user_namespace.is_asked())
    }

    pub(super) fn isolation(&self) -> Option<Isolation> {
        let seen = self.plan.record.seen.as_ref()?;
        Some(Isolation {
            network: self.network()?,
            user_namespace: seen.user_namespace,
            runtime_class_name: seen.class.clone(),
        })
    }

    fn network(&self) -> Option<NetworkIsolation> {
        let seen = self.plan.record.seen.as_ref()?;
        Some(match seen.network {
            Network::Closed => NetworkIsolation::Closed,
            Network::Open => NetworkIsolation::Open,
            Network::Unknown => NetworkIsolation::Unknown,
        })
    }
}

fn closed(seen: &ProbeResult) -> ReasonMessage {
    let Some(node) = seen.node else {
        return (Reason::NetworkClosed, "what it must not reach was not reached".to_owned());
    };
    let message = format!(
        "its network is closed but for its own node, whose kubelet answers at {node}; name the \
         node's address in network.clusterRanges, or see whether the cluster's network holds \
         policies towards its own nodes"
    );
    (Reason::NodeReachable, message)
}
