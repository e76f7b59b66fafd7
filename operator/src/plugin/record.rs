//! What the operator must not forget about a Plugin.
//!
//! Jobs and Pods are deleted when they have done their work. What they found out stays here, as an
//! annotation of the Plugin's mounted Secret: record and what is mounted change in one write. It can
//! be lost with the Secret; then the plugin is built anew.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use famulus_crds::plugin::{Granted, Reason};
use famulus_protocol::revision::{Bundled, Network};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};

/// The annotation of the mounted Secret.
pub const RECORD: &str = "famulus.dev/record";

/// In the place of a claim: each Pod fetches the revision for itself.
pub const SCRATCH: &str = "scratch";

/// The first wait after a build that may be tried again; it doubles with each try.
const FIRST_WAIT: SignedDuration = SignedDuration::from_secs(30);

/// The longest wait between two tries.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(30);

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Record {
    /// The number of what was mounted last, the digest of it, and since when it is that.
    pub rendered: i64,
    pub content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_at: Option<Timestamp>,
    /// What the source was built to, and the key of that build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<Newest>,
    /// What serves: the revision whose build ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<Revision>,
    /// The volume that it lies on: the UID of the claim, or [`SCRATCH`].
    pub volume: String,
    /// The Secret with an order of a build, from before it is written until it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordered: Option<String>,
    /// The build that failed last, unless one succeeded since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failure>,
    /// What the revision that serves was pinned with, where only a pin lets one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<Granted>,
    /// The look at the source that failed last, where what it gives waits for a pin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfetched: Option<Failure>,
    /// The annotation whose values were taken last, and the keys that came in this way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub taken_keys: BTreeSet<String>,
    /// What the last probe found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<ProbeResult>,
    /// Nodes that refused a Pod its user namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<NodeRefusal>,
    /// No node but those took a Pod of this shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nowhere_else: Option<Shape>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Newest {
    pub key: String,
    pub revision: Revision,
}

/// A revision that was built.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Revision {
    pub digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    #[serde(default)]
    pub tools: Vec<String>,
    #[serde(default)]
    pub required_keys: Vec<String>,
    #[serde(default)]
    pub config_keys: Vec<String>,
    /// The end of what its init script said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub init_output: String,
}

/// A build that failed.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Failure {
    pub key: String,
    /// The UID of the Job, so that one failure is not counted twice.
    #[serde(default)]
    pub job: String,
    pub reason: String,
    pub message: String,
    pub tries: u32,
    pub at: Timestamp,
    /// What the source was bundled to before it failed: the next try builds that, and asks the source
    /// for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundled: Option<Revision>,
}

/// What a probe found in a Pod.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct ProbeResult {
    pub network: Network,
    pub detail: String,
    pub user_namespace: bool,
    /// Whether the Pod had asked for a user namespace. Older operators did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<bool>,
    /// The kubelet of its node, where that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<SocketAddr>,
    /// The RuntimeClass of the Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// What decides whether a Pod starts in a user namespace, beside the node.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Whether it mounts a volume claim: its file system must be one that maps ids.
    pub claim: bool,
    /// The StorageClass of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
}

/// A node refused a Pod its user namespace.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct NodeRefusal {
    pub node: String,
    pub shape: Shape,
    /// What the node said.
    pub said: String,
    pub at: Timestamp,
    /// The owner's annotation that asked for a new build, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<String>,
}

impl Record {
    /// The record that a Secret carries. What cannot be read is no record: the plugin is built anew.
    pub fn of(mounted: Option<&Secret>) -> Self {
        let annotations = mounted.and_then(|secret| secret.metadata.annotations.as_ref());
        let text = annotations.and_then(|annotations| annotations.get(RECORD));
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// As it stands in the annotation.
    pub fn text(&self) -> String {
        // Texts, numbers and lists of them always become JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Whether the same build would fail again.
pub fn is_final(reason: &str) -> bool {
    match Reason::parse(reason) {
        Some(
            Reason::RefNotFound
            | Reason::ManifestInvalid
            | Reason::InitFailed
            | Reason::RevisionUnknown,
        ) => true,
        Some(_) | None => false,
    }
}

/// Why a build failed: in a word, and in a sentence.
pub struct Cause {
    pub reason: String,
    pub message: String,
    /// The revision whose bundle the app has.
    pub bundled: Option<Revision>,
}

impl Failure {
    /// The next failure of a build with this key.
    pub fn after(before: Option<&Self>, key: &str, cause: Cause, at: Timestamp) -> Self {
        let tries = before.filter(|before| before.key == key).map_or(0, |before| before.tries);
        let Cause { reason, message, bundled } = cause;
        let message = message.chars().take(1000).collect();
        let (key, tries) = (key.to_owned(), tries.saturating_add(1));
        Self { key, job: String::new(), reason, message, tries, at, bundled }
    }

    /// Whether the same is not to be tried now.
    pub fn holds(&self, now: Timestamp) -> bool {
        is_final(&self.reason) || now < self.again_at()
    }

    /// When it is tried again.
    pub fn again_at(&self) -> Timestamp {
        let doublings = self.tries.saturating_sub(1).min(10);
        let wait = (FIRST_WAIT * (1 << doublings)).min(LONGEST_WAIT);
        self.at.checked_add(wait).unwrap_or(self.at)
    }
}

impl Revision {
    /// What the bundling container reported, unless it reported a failure, and what init said after it.
    pub fn reported(bundled: Bundled, init_output: String) -> Option<Self> {
        match bundled {
            Bundled::Done { revision: digest, commit, tools, required_keys, config_keys } => {
                Some(Self { digest, commit, tools, required_keys, config_keys, init_output })
            }
            Bundled::Failed(_) => None,
        }
    }

    /// The first letters of the digest, for people.
    pub fn short(&self) -> &str {
        let hex = self.digest.strip_prefix("sha256:").unwrap_or(&self.digest);
        hex.get(..12).unwrap_or(hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_by_an_older_operator_is_read() {
        let old = r#"{"rendered":3,"content":"c","serving":{"digest":"sha256:00"},"later":1,
            "fallen_back":{"claim":true}}"#;
        let annotations = [(RECORD.to_owned(), old.to_owned())].into();
        let mut secret = Secret::default();
        secret.metadata.annotations = Some(annotations);
        let record = Record::of(Some(&secret));
        assert_eq!((record.rendered, record.content.as_str()), (3, "c"));
        assert_eq!(record.serving.unwrap().digest, "sha256:00");
        assert_eq!(Record::of(None), Record::default());
    }

    #[test]
    fn a_build_that_goes_on_failing_is_tried_ever_less_often() {
        let at: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let cause =
            |reason: &str| Cause { reason: reason.into(), message: "m".into(), bundled: None };
        let mut failure = None;
        let mut waits = Vec::new();
        for _ in 0..9 {
            let next = Failure::after(failure.as_ref(), "k", cause("BuildFailed"), at);
            waits.push(next.again_at().duration_since(at).as_secs());
            failure = Some(next);
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]);
        assert_eq!(Failure::after(failure.as_ref(), "other", cause("r"), at).tries, 1);
    }
}
