//! `Plugin`: tools that the assistant may use, in a sandbox of their own.
//!
//! It lives in the sandbox namespace beside everything that the operator makes for it.
//!
//! ```text
//! spec    what the owner wants       owner, app      (replicas: through the scale subresource)
//! status  what is                    operator        (through the status subresource)
//! ```

#![expect(clippy::duplicated_attributes, reason = "printed columns have fields of the same names")]
#![expect(unreachable_pub, reason = "KubeSchema derives from a copy of the type inside a function")]

mod condition;
mod grants;
mod reason;
mod runner;
mod source;
mod status;

use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use condition::{Condition, ConditionStatus, ConditionType, set_condition};
pub use grants::{Egress, EgressMode, InitEgress, Permissions};
pub use reason::Reason;
pub use runner::{Amounts, Flavour, Quantity, Resources, Runner};
pub use source::{GitSource, InlineFile, InlineSource, MOST_INLINE_BYTES, Source};
pub use status::{Granted, Isolation, NetworkIsolation, Offered, PluginStatus};

/// What the owner wants of a plugin.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "famulus.dev",
    version = "v1alpha1",
    kind = "Plugin",
    namespaced,
    doc = "Tools that the assistant may use, in a sandbox of their own.",
    derive = "PartialEq",
    status = "PluginStatus",
    category = "famulus",
    shortname = "fplug",
    scale(
        spec_replicas_path = ".spec.runner.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Plugin",
        type_ = "string",
        json_path = ".spec.name",
        description = "The plugin's own name"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether a call of its tools is answered"
    ),
    printcolumn(
        name = "Because",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why it is ready or not"
    ),
    printcolumn(
        name = "Runners",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "Runners that exist now; one starts when a tool is called"
    ),
    printcolumn(
        name = "Egress",
        type_ = "string",
        json_path = ".spec.egress.mode",
        description = "What its tools reach"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since when it exists"
    ),
    printcolumn(
        name = "Says",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        description = "What is the case, and what to do about it",
        priority = 1
    ),
    printcolumn(
        name = "Revision",
        type_ = "string",
        json_path = ".status.revision",
        description = "The revision that serves",
        priority = 1
    ),
    printcolumn(
        name = "Commit",
        type_ = "string",
        json_path = ".status.commit",
        description = "The commit that the revision was built from",
        priority = 1
    ),
    printcolumn(
        name = "Network",
        type_ = "string",
        json_path = ".status.isolation.network",
        description = "Whether its network was found closed",
        priority = 1
    ),
    printcolumn(
        name = "User-Namespace",
        type_ = "boolean",
        json_path = ".status.isolation.userNamespace",
        description = "Whether its user ids mean nothing on the node",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = one_runner_for_one_state())]
pub struct PluginSpec {
    /// The plugin's own name, as its manifest.json has it: lowercase letters, digits and hyphens.
    /// It cannot change. Where two Plugins of a namespace have one name, the older one has it.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = plain_name(), validation = lasting_name())]
    pub name: String,

    /// Where the plugin comes from: exactly one of `inline` and `git`.
    pub source: Source,

    /// The revision that should serve, as a digest: `sha256:` and 64 hexadecimal digits. Left out,
    /// it is the newest that was built. An earlier one, as `status.revision` named it, goes back to
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71))]
    #[x_kube(validation = digest())]
    pub revision: Option<String>,

    /// Whether a new revision serves by itself. `Automatic`: the newest that was built serves, unless
    /// `revision` names another. `Manual`: nothing of a revision runs, its init script included,
    /// before `revision` names it; what the source gave last stands in `status.offered`.
    #[serde(default, skip_serializing_if = "Rollout::is_automatic")]
    pub rollout: Rollout,

    /// The Secret whose keys are the plugin's configuration. It is the owner's, in the same
    /// namespace, and its label `famulus.dev/config-for` is the name of this Plugin: without that it
    /// is not read. The plugin reads it as `config.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_secret_ref: Option<SecretRef>,

    /// Which of its tools may run. Left out, none may.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,

    /// What its tools reach over the network. Left out, nothing.
    #[serde(default)]
    pub egress: Egress,

    /// What becomes of files that the plugin writes into its folder. `Persistent` keeps them on a
    /// volume, from call to call and from revision to revision; one runner at most works on it.
    /// `Ephemeral` loses them when a runner ends; several may work side by side. It cannot change.
    #[serde(default)]
    #[x_kube(validation = lasting_state())]
    pub state: State,

    /// How the plugin runs.
    #[serde(default)]
    pub runner: Runner,

    /// True holds everything: no build, no runner, no call. The status is still kept up to date.
    #[serde(default)]
    pub suspend: bool,
}

/// A Secret in the namespace of the Plugin.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = object_name("spec.configSecretRef.name", "a Secret", "weather-config"))]
    pub name: String,
}

/// Whether a new revision serves by itself.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rollout {
    #[default]
    Automatic,
    Manual,
}

impl Rollout {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_automatic(&self) -> bool {
        *self == Self::Automatic
    }
}

/// What becomes of files that a plugin writes into its folder.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Persistent,
    Ephemeral,
}

fn plain_name() -> Rule {
    Rule::new("self.matches('^[a-z0-9-]+$')").message(
        "spec.name has a character that no plugin's name has; use only lowercase letters, digits \
         and hyphens, as in my-plugin",
    )
}

fn lasting_name() -> Rule {
    Rule::new("self == oldSelf").message(
        "spec.name cannot change, because the plugin's files and calls belong to it; delete this \
         Plugin and create one with the new name",
    )
}

fn lasting_state() -> Rule {
    Rule::new("self == oldSelf").message(
        "spec.state cannot change, because it decides where the plugin's files are; delete this \
         Plugin and create it anew with the other state",
    )
}

fn digest() -> Rule {
    Rule::new("self.matches('^sha256:[0-9a-f]{64}$')").message(
        "spec.revision is not a digest; write sha256: and 64 hexadecimal digits, as \
         status.revision shows them, or leave it out for the newest that was built",
    )
}

fn one_runner_for_one_state() -> Rule {
    Rule::new("self.state != 'Persistent' || self.runner.max <= 1")
        .message(
            "spec.runner.max is more than 1, but the files of a Persistent plugin serve one \
             runner; set it to 1, or create the plugin with state: Ephemeral",
        )
        .field_path(".runner.max")
}

/// A name that an object of Kubernetes can have.
fn object_name(field: &str, object: &str, example: &str) -> Rule {
    let message = format!(
        "{field} is no name that {object} can have; use lowercase letters, digits, dots and \
         hyphens, as in {example}"
    );
    Rule::new("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')").message(message.as_str())
}
