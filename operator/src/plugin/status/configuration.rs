//! What the plugin needs to be told, and what its owner gave for it.

use famulus_crds::labels::CONFIG_FOR;
use famulus_crds::plugin::Reason;

use super::super::observe::Config;
use super::super::record::Revision;
use super::{ReasonMessage, View};

impl View<'_> {
    pub(super) fn configured(&self) -> ReasonMessage {
        if let Config::Missing(name) = &self.observed.config {
            return (
                Reason::SecretMissing,
                format!(
                    "the Secret {name} of spec.configSecretRef does not exist; create it in the \
                     namespace {}",
                    self.valid.namespace
                ),
            );
        }
        if let Config::NotGranted { name, values } = &self.observed.config {
            let kept =
                if values.is_empty() { "" } else { "; until then it keeps the values that it has" };
            return (
                Reason::SecretNotGranted,
                format!(
                    "the Secret {name} has no label that gives it to this plugin; if it may have it: \
                     kubectl -n {} label secret {name} {CONFIG_FOR}={} --overwrite{kept}",
                    self.valid.namespace, self.valid.stem
                ),
            );
        }
        let Some(revision) = &self.plan.record.serving else {
            let message = "which keys it needs is known once it is built".to_owned();
            return (Reason::ConfigUnknown, message);
        };
        let missing = self.missing(revision);
        if missing.is_empty() {
            return (Reason::ConfigComplete, "every key that it needs has a value".to_owned());
        }
        let bytes: Vec<&str> =
            missing.iter().copied().filter(|key| self.is_unreadable(key)).collect();
        let missing = missing.join(", ");
        let message = match &self.valid_secret() {
            Some(name) if !bytes.is_empty() => format!(
                "the Secret {name} has no text for {missing}: what {} holds is no UTF-8; give it a \
                 text there",
                bytes.join(", ")
            ),
            Some(name) => format!("the Secret {name} has no value for {missing}; add it there"),
            None => format!(
                "it needs values for {missing}; `famulus plugin configure {} KEY` gives one, or a \
                 Secret with these keys that spec.configSecretRef names",
                self.valid.name
            ),
        };
        (Reason::KeysMissing, message)
    }

    /// The keys that it needs and that have no value.
    fn missing<'a>(&self, revision: &'a Revision) -> Vec<&'a str> {
        let has_value = |key: &String| self.plan.config.get(key).is_some_and(|it| !it.is_empty());
        let missing = revision.required_keys.iter().filter(|key| !has_value(key));
        missing.map(String::as_str).collect()
    }

    /// Whether a plugin whose Secret is not given to it serves with what it was given before.
    pub(super) fn keeps_its_values(&self, reason: Reason) -> bool {
        let is_enough = |revision| self.missing(revision).is_empty();
        reason == Reason::SecretNotGranted
            && !self.plan.config.is_empty()
            && self.plan.serving().is_some_and(is_enough)
    }

    fn is_unreadable(&self, key: &str) -> bool {
        match &self.observed.config {
            Config::Values { unreadable, .. } => unreadable.iter().any(|one| one == key),
            Config::NotAsked
            | Config::Brought { .. }
            | Config::Missing(_)
            | Config::NotTheOwners(_)
            | Config::NotGranted { .. } => false,
        }
    }

    fn valid_secret(&self) -> Option<String> {
        let reference = self.observed.plugin.spec.config_secret_ref.as_ref();
        reference.map(|reference| reference.name.clone())
    }
}
