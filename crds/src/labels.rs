//! The labels and annotations that app, operator and network policies find objects by.
//!
//! All of ours begin with `famulus.dev/`. Nothing that an owner wrote becomes one of them.

/// Who made the object: on everything that the operator makes, with [`OPERATOR`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The operator, in [`MANAGED_BY`] and as the manager of fields.
pub const OPERATOR: &str = "famulus-operator";

/// The Plugin that the object belongs to, as [`crate::names::stem`] writes it.
pub const PLUGIN: &str = "famulus.dev/plugin";

/// The release whose operator made the object.
pub const RELEASE: &str = "famulus.dev/release";

/// What a Pod is for: see [`Part`].
pub const PART: &str = "famulus.dev/part";

/// What a Pod reaches: `none` or `internet`. Network policies choose by it.
pub const EGRESS: &str = "famulus.dev/egress";

/// With [`ALLOWED`], a Pod reaches the app's callback port.
pub const CALLBACK: &str = "famulus.dev/callback";

/// The value of [`CALLBACK`].
pub const ALLOWED: &str = "allowed";

/// On a Secret of the owner's: the Plugin that may be given it, as [`crate::names::stem`] writes it.
pub const CONFIG_FOR: &str = "famulus.dev/config-for";

/// Annotation of a Plugin: another value builds its source anew, although it did not change.
pub const REFRESH: &str = "famulus.dev/refresh";

/// Annotation of a Plugin whose `spec.rollout` is Manual: another value tries what `spec.revision`
/// names once more.
pub const RETRY: &str = "famulus.dev/retry";

/// Annotation of a Plugin: another value says that its Secret [`crate::names::Child::Values`] brings
/// values of its configuration.
pub const VALUES: &str = "famulus.dev/values";

/// The key of that Secret: a JSON object of texts. With `null` a key has no value any more.
pub const CHANGES: &str = "values.json";

/// Annotation of a Plugin: what was done with it through the assistant, and by whom.
pub const HISTORY: &str = "famulus.dev/history";

/// Annotation of a Plugin: the backup that its volume is to have its files from before it serves.
pub const RESTORED_FROM: &str = "famulus.dev/restored-from";

/// Annotation of a runner's Pod: the number of what it was given, so that the kubelet brings it at
/// once.
pub const RENDERED: &str = "famulus.dev/rendered";

/// What a Pod of the sandbox is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Runner,
    Build,
}

impl Part {
    /// As it stands in the label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runner => "runner",
            Self::Build => "build",
        }
    }
}

/// The Pods that run the tools of the Plugin with this name, as a selector in text.
pub fn runners_of(plugin: &str) -> String {
    format!("{PLUGIN}={},{PART}={}", crate::names::stem(plugin), Part::Runner.name())
}
