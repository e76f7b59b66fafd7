//! Values of a configuration that the app brings, where the owner named no Secret.
//!
//! ```text
//! app         makes the Secret, and then another value of the annotation
//! operator    its values into the mounted Secret ─► deletes it ─► notes the annotation
//! ```
//!
//! The app may make Secrets and read none; the operator may not list them. So it has one name, and is
//! looked for while the annotation is not noted: what was taken is taken again until it is gone.

use std::collections::{BTreeMap, BTreeSet};

use famulus_crds::labels::{CHANGES, CONFIG_FOR, VALUES};
use famulus_crds::names::{Child, child, stem};
use famulus_crds::plugin::Plugin;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::build;
use super::error::Error;
use super::observe::Config;
use super::record::Record;
use crate::context::Context;

pub(super) async fn brought(
    plugin: &Plugin,
    mounted: Option<&Secret>,
    context: &Context,
) -> Result<Config, Error> {
    let record = Record::of(mounted);
    let told = plugin.annotations().get(VALUES);
    let kept = mounted.and_then(build::mounted_values).unwrap_or_default();
    let values = kept.into_iter().filter(|(key, _)| record.taken_keys.contains(key)).collect();
    if told == record.taken.as_ref() {
        return Ok(match told {
            None => Config::NotAsked,
            Some(_) => Config::Brought { values, secret: None, taken: record.taken },
        });
    }
    let object = plugin.name_any();
    let secret = context.secret(&child(&object, Child::Values)).await?;
    Ok(with(values, &stem(&object), secret, told, &record))
}

fn with(
    mut values: BTreeMap<String, String>,
    stem: &str,
    secret: Option<Secret>,
    told: Option<&String>,
    record: &Record,
) -> Config {
    let is_for_it = |secret: &Secret| secret.labels().get(CONFIG_FOR).is_some_and(|of| of == stem);
    let Some(secret) = secret.filter(is_for_it) else {
        return Config::Brought { values, secret: None, taken: told.cloned() };
    };
    let changes = secret.data.as_ref().and_then(|data| data.get(CHANGES));
    let changes = changes.map_or(&[][..], |changes| changes.0.as_slice());
    let changes: BTreeMap<String, Option<String>> =
        serde_json::from_slice(changes).unwrap_or_else(|error| {
            // Only the app makes it. Left there it would be in the way of the next one.
            tracing::warn!(
                kind = ?error.classify(), secret = secret.name_any(), "no values can be read from a Secret"
            );
            BTreeMap::new()
        });
    for (key, value) in changes {
        match value {
            Some(value) => values.insert(key, value),
            None => values.remove(&key),
        };
    }
    Config::Brought { values, secret: Some(Box::new(secret)), taken: record.taken.clone() }
}

/// What is noted of it.
pub(super) fn update_record(record: &mut Record, config: &Config) {
    (record.taken, record.taken_keys) = match config {
        Config::Brought { values, taken, .. } => (taken.clone(), values.keys().cloned().collect()),
        Config::NotAsked
        | Config::Missing(_)
        | Config::NotTheOwners(_)
        | Config::NotGranted { .. }
        | Config::Values { .. } => (None, BTreeSet::new()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_merged_and_those_for_another_plugin_are_not() {
        let secret = |of: &str| -> Secret {
            let text = json!({"token": "new", "old": null, "place": "here"}).to_string();
            let mut secret: Secret = serde_json::from_value(json!({
                "metadata": {"name": "weather-values", "labels": {CONFIG_FOR: of}},
            }))
            .unwrap();
            let bytes = k8s_openapi::ByteString(text.into_bytes());
            secret.data = Some([(CHANGES.to_owned(), bytes)].into());
            secret
        };
        let kept = || -> BTreeMap<String, String> {
            [("token", "before"), ("old", "1")]
                .map(|(key, value)| (key.into(), value.into()))
                .into()
        };
        let told = "2".to_owned();
        let record = Record { taken: Some("1".to_owned()), ..Record::default() };
        let merge = |of| with(kept(), "weather", Some(secret(of)), Some(&told), &record);
        let Config::Brought { values, secret: Some(_), taken } = merge("weather") else {
            panic!("it is taken");
        };
        assert_eq!(taken.as_deref(), Some("1"), "until it is gone");
        let expected: BTreeMap<String, String> = [("token", "new"), ("place", "here")]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        assert_eq!(values, expected);
        let Config::Brought { values, secret: None, taken } = merge("other") else {
            panic!("it is another's");
        };
        assert_eq!((values, taken), (kept(), Some(told.clone())));
    }
}
