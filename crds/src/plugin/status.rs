//! What the operator reports of a plugin.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, ConditionStatus, ConditionType, EgressMode, Permissions};

/// What is the case. All of it can be found out anew; nothing is decided by it alone.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PluginStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The revision that serves: `sha256:` and the digest of its files. While a newer one is built,
    /// or could not be built, it is still the older one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub revision: Option<String>,

    /// Since when it serves, however often the source was looked at meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub serves_since: Option<Time>,

    /// The commit that the serving revision was built from, when it came from git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub commit: Option<String>,

    /// What the source gave when it was looked at last. Only where `spec.rollout` is Manual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Offered>,

    /// What the revision that serves was permitted with. Only where `spec.rollout` is Manual: what the
    /// spec gives to the revision that it names is not the earlier one's, which serves until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Granted>,

    /// The number of what the runner was given: it rises by one whenever the revision or the
    /// configuration that it is to work with changes. A call carries it, and a runner that was
    /// given less answers that it is stale.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub rendered: i64,

    /// The tools of the serving revision, permitted or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub tools: Vec<String>,

    /// The keys of the configuration that have a value. Never a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub config_keys: Vec<String>,

    /// How the last runner was really confined, whatever was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,

    /// Runners that exist now.
    #[serde(default)]
    pub replicas: i32,

    /// The labels of the runners' Pods, as a selector in text. For the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub selector: Option<String>,

    /// What holds and what does not, one entry for each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,
}

impl PluginStatus {
    /// Since when the revision that is named in [`revision`](Self::revision) serves. An operator that does not say
    /// it yet moves what stands for it with each look at the source.
    pub fn serving_since(&self) -> Option<&Time> {
        let built = || {
            let built = self.conditions.iter().find(|it| it.kind == ConditionType::Built.name());
            let holds = built.filter(|built| built.status == ConditionStatus::True);
            holds.map(|built| &built.last_transition_time)
        };
        self.serves_since.as_ref().or_else(built)
    }
}

/// What a revision may do.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// The tools that may run; `*` is all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub tools: Vec<String>,

    /// What its tools reach.
    #[serde(default)]
    pub egress: EgressMode,
}

impl Granted {
    /// Whether the tool of this name may run.
    pub fn allows(&self, tool: &str) -> bool {
        Permissions::lets(&self.tools, tool)
    }
}

/// What the source of a plugin gave: a revision, or why there is none.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Offered {
    /// The look that this came of: another source, or another value of the annotation
    /// `famulus.dev/refresh`, has another one.
    #[schemars(length(max = 64))]
    pub look: String,

    /// The revision, as `spec.revision` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    pub revision: Option<String>,

    /// The commit that it was made of, when it came from git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub commit: Option<String>,

    /// Why there is none: a reason of the condition `Built`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,

    /// What is the case and what to do about it, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// How a runner was confined, as it was found and not as it was asked for.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Isolation {
    /// What the probe in the Pod found before anything of the plugin ran. `Closed`: what must not be
    /// reached was not, and what may be was. `Open`: something was reached that must not be.
    /// `Unknown`: the probe could not tell.
    pub network: NetworkIsolation,

    /// Whether the Pod had a user namespace, so that its user ids mean nothing on the node.
    pub user_namespace: bool,

    /// The RuntimeClass of the Pod. Left out, it was the node's ordinary runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub runtime_class_name: Option<String>,
}

/// `Closed`: what must not be reached was not, and what may be was. `Open`: something was reached
/// that must not be. `Unknown`: the probe could not tell.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkIsolation {
    Closed,
    Open,
    Unknown,
}
