//! Why a condition is as it is: the closed list of reasons. Events use the same words.

use std::borrow::Cow;
use std::fmt::Write;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::{ConditionStatus, ConditionType};

/// `Name: Type = Status, "what it means to the owner";`
macro_rules! reasons {
    ($($name:ident: $kind:ident = $status:ident, $meaning:literal;)*) => {
        /// A reason belongs to one type of condition and to one status of it. `Ready` may also be
        /// *false* for a reason that belongs to another type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $(#[doc = $meaning] $name,)*
        }

        impl Reason {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The type of condition that it belongs to, and the status of that condition.
            pub fn says(self) -> (ConditionType, ConditionStatus) {
                match self {
                    $(Self::$name => (ConditionType::$kind, ConditionStatus::$status),)*
                }
            }

            /// As it stands in the resource.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What it means to the owner.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                }
            }
        }
    };
}

reasons! {
    Running: Ready = True, "a runner takes calls";
    Idle: Ready = True, "no runner is up, and a call starts one";
    Starting: Ready = True, "a runner starts, and calls wait for it";
    Suspended: Ready = False, "the owner holds it, by spec.suspend";
    NameTaken: Ready = False, "an older Plugin of the namespace has its name";
    SpecInvalid: Ready = False, "the spec asks for what cannot be";
    Unschedulable: Ready = False, "no node takes its Pod";
    RunnerFailing: Ready = False, "its runner does not start or does not stay up";

    RevisionBuilt: Built = True, "the wanted revision was built";
    Building: Built = Unknown, "the wanted revision is being built";
    Offered: Built = Unknown, "a revision waits until spec.revision names it";
    SourceUnreachable: Built = False, "the source could not be fetched";
    RefNotFound: Built = False, "the source has no such branch, tag or commit";
    ManifestInvalid: Built = False, "a manifest is missing or wrong";
    InitFailed: Built = False, "the plugin's init script failed or took too long";
    BuildFailed: Built = False, "the build failed for another reason";
    RevisionUnknown: Built = False, "spec.revision names no revision that is kept";

    ConfigComplete: Configured = True, "every required key has a value";
    ConfigUnknown: Configured = Unknown, "no revision says yet which keys are required";
    SecretMissing: Configured = False, "the Secret of spec.configSecretRef does not exist";
    SecretNotGranted: Configured = False, "the Secret of spec.configSecretRef has no label that names the plugin";
    KeysMissing: Configured = False, "a required key has no value";

    ToolsPermitted: Permitted = True, "at least one tool may run";
    NothingPermitted: Permitted = False, "spec.permissions lets no tool run";

    StateOnVolume: StateKept = True, "its files are on a volume";
    VolumePending: StateKept = Unknown, "its volume is not there yet";
    StateEphemeral: StateKept = False, "spec.state is Ephemeral";
    NoStorageClass: StateKept = False, "the cluster has no default StorageClass, so its files are lost with each runner";

    NetworkClosed: NetworkIsolated = True, "what it must not reach was not reached";
    NetworkNotProbed: NetworkIsolated = Unknown, "no runner has looked yet";
    NetworkUnknown: NetworkIsolated = Unknown, "the probe could not tell, and so nothing of the plugin runs";
    NetworkOpen: NetworkIsolated = False, "it reached what it must not reach, and so nothing of the plugin runs";
    NodeReachable: NetworkIsolated = False, "its network is closed but for its own node, whose kubelet answers";
    OpenNetworkAccepted: NetworkIsolated = False, "its network is open or unknown, and the installation says to run it all the same";

    AsAsked: Confined = True, "its Pod is confined as was asked for";
    ConfinementNotProbed: Confined = Unknown, "no node was tried yet";
    NoUserNamespace: Confined = False, "the node gives its Pod no user namespace";
    NoRuntimeClass: Confined = False, "the RuntimeClass does not exist or starts nothing";
}

impl Reason {
    /// The reason of this name. Nothing, when a newer program made it up.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }
}

impl JsonSchema for Reason {
    fn schema_name() -> Cow<'static, str> {
        "Reason".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::ALL.iter().map(|reason| reason.name()).collect();
        json_schema!({ "type": "string", "enum": names, "description": description() })
    }
}

/// The whole list, for `kubectl explain`.
fn description() -> String {
    let mut text = "Why. Ready is also False for the reasons of the other types.".to_owned();
    for reason in Reason::ALL {
        let (kind, status) = reason.says();
        let (name, meaning) = (reason.name(), reason.meaning());
        // Writing into a text cannot fail.
        let _ = write!(text, " {name} ({}={status:?}): {meaning}.", kind.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_fit_an_api() {
        for reason in Reason::ALL {
            let name = reason.name();
            assert_eq!(Reason::parse(name), Some(*reason));
            assert!(name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphabetic()), "{name}");
        }
    }

    #[test]
    fn every_type_can_be_true_and_false() {
        for status in [ConditionStatus::True, ConditionStatus::False] {
            let mut kinds: Vec<ConditionType> = Reason::ALL
                .iter()
                .map(|reason| reason.says())
                .filter_map(|(kind, said)| (said == status).then_some(kind))
                .collect();
            kinds.dedup();
            kinds.sort();
            kinds.dedup();
            assert_eq!(kinds.len(), 7, "{status:?}: {kinds:?}");
        }
    }
}
