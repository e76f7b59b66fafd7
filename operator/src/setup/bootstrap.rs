//! `famulus-operator bootstrap`: makes the Secrets and the volume claims that an installation lacks,
//! once, and has Pod Security hold in its namespace.
//!
//! It may create them and neither read nor change one: what is there is left as it is, so no upgrade
//! rotates a password, and a run that is repeated changes nothing. What it makes belongs to no
//! release, so uninstalling leaves it, and no install waits until a claim is bound that is for later.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolumeClaim, PersistentVolumeClaimSpec, Secret, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use rand::Rng as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Environment, EnvironmentError};

/// What Pod Security does in the namespace: refuse, record and warn.
const MODES: [&str; 3] = ["enforce", "audit", "warn"];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(
        "the key {key:?} of Secret {secret} asks for text with {part:?}, which no key before it gives"
    )]
    UnknownPart { secret: String, key: String, part: String },
    #[error("the Secret {name} cannot be created; may this ServiceAccount create Secrets here?")]
    CreateSecret { name: String, source: kube::Error },
    #[error(
        "the PersistentVolumeClaim {name} cannot be created; may this ServiceAccount create claims \
         here, and does the namespace's quota leave room for it?"
    )]
    CreateClaim { name: String, source: kube::Error },
    #[error(
        "the namespace {name} cannot be labelled; may this ServiceAccount patch it? By hand: kubectl \
         label namespace {name} pod-security.kubernetes.io/enforce=restricted"
    )]
    LabelNamespace { name: String, source: kube::Error },
}

/// Makes what is missing.
///
/// # Errors
/// The environment is not the Job's, or the API server refuses; the message says what to do.
pub async fn run(
    client: kube::Client,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), Error> {
    let environment = Environment(environment);
    let namespace = environment.text("FAMULUS_BOOTSTRAP_NAMESPACE")?;
    let release = environment.text("FAMULUS_BOOTSTRAP_RELEASE")?;
    let wanted: Vec<Wanted> = environment.json("FAMULUS_BOOTSTRAP_SECRETS")?;
    let claims = claims(&environment)?;

    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    for wanted in wanted {
        let name = wanted.name.clone();
        match create(&secrets, &wanted.make(&release, random)?).await {
            Ok(Made::Now) => tracing::info!(secret.name = %name, "a Secret was made"),
            Ok(Made::Before) => {
                tracing::info!(secret.name = %name, "a Secret is there already and stays as it is");
            }
            Err(source) => return Err(Error::CreateSecret { name, source }),
        }
    }
    let volumes: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    for claim in claims {
        let name = claim.name.clone();
        match create(&volumes, &claim.make(&release)).await {
            Ok(Made::Now) => tracing::info!(claim.name = %name, "a claim was made"),
            Ok(Made::Before) => {
                tracing::info!(claim.name = %name, "a claim is there already and stays as it is");
            }
            Err(source) => return Err(Error::CreateClaim { name, source }),
        }
    }
    label(client, namespace).await
}

/// A chart that wants no claim says nothing of them.
fn claims(environment: &Environment<'_>) -> Result<Vec<Claim>, EnvironmentError> {
    const CLAIMS: &str = "FAMULUS_BOOTSTRAP_CLAIMS";
    if environment.text(CLAIMS).is_err() {
        return Ok(Vec::new());
    }
    environment.json(CLAIMS)
}

/// When an object came to be there.
enum Made {
    Now,
    Before,
}

async fn create<K>(objects: &Api<K>, object: &K) -> Result<Made, kube::Error>
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    match objects.create(&PostParams::default(), object).await {
        Ok(_) => Ok(Made::Now),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Made::Before),
        Err(source) => Err(source),
    }
}

async fn label(client: kube::Client, name: String) -> Result<(), Error> {
    let labels: BTreeMap<String, &str> = MODES
        .into_iter()
        .map(|mode| (format!("pod-security.kubernetes.io/{mode}"), "restricted"))
        .collect();
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    Api::<Namespace>::all(client)
        .patch(&name, &PatchParams::default(), &patch)
        .await
        .map_err(|source| Error::LabelNamespace { name: name.clone(), source })?;
    tracing::info!(namespace.name = %name, "Pod Security holds in the namespace");
    Ok(())
}

/// A Secret that should be there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    keys: Vec<Key>,
}

/// A key of it: random bytes, or a text in which `{other}` is the value of a key before it.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Key {
    Random { key: String, bytes: usize, encoding: Encoding },
    Text { key: String, text: String },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Raw,
    Hex,
    Base64url,
}

/// A claim of a volume for backups that should be there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Claim {
    name: String,
    storage: String,
    /// Left out, it is the cluster's default.
    storage_class: Option<String>,
}

fn random(bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    rand::rng().fill_bytes(&mut value);
    value
}

impl Wanted {
    fn make(self, release: &str, random: impl Fn(usize) -> Vec<u8>) -> Result<Secret, Error> {
        let mut data: BTreeMap<String, ByteString> = BTreeMap::new();
        for key in self.keys {
            let (key, value) = match key {
                Key::Random { key, bytes, encoding } => (key, encoding.apply(random(bytes))),
                Key::Text { key, text } => {
                    let filled = fill(&text, &data).map_err(|part| Error::UnknownPart {
                        secret: self.name.clone(),
                        key: key.clone(),
                        part,
                    })?;
                    (key, filled.into_bytes())
                }
            };
            data.insert(key, ByteString(value));
        }
        Ok(Secret {
            metadata: metadata(self.name, release, "secret"),
            data: Some(data),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        })
    }
}

impl Claim {
    fn make(self, release: &str) -> PersistentVolumeClaim {
        PersistentVolumeClaim {
            metadata: metadata(self.name, release, "backup"),
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
                resources: Some(VolumeResourceRequirements {
                    requests: Some([("storage".to_owned(), Quantity(self.storage))].into()),
                    ..VolumeResourceRequirements::default()
                }),
                storage_class_name: self.storage_class,
                ..PersistentVolumeClaimSpec::default()
            }),
            ..PersistentVolumeClaim::default()
        }
    }
}

fn metadata(name: String, release: &str, component: &str) -> ObjectMeta {
    let labels = [
        ("app.kubernetes.io/name", "famulus"),
        ("app.kubernetes.io/instance", release),
        ("app.kubernetes.io/component", component),
    ];
    let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
    ObjectMeta { name: Some(name), labels: Some(labels.into()), ..ObjectMeta::default() }
}

impl Encoding {
    fn apply(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Raw => bytes,
            Self::Hex => hex::encode(bytes).into_bytes(),
            Self::Base64url => URL_SAFE_NO_PAD.encode(bytes).into_bytes(),
        }
    }
}

/// Puts values in place of their names in braces; fails with a name that has none.
fn fill(text: &str, values: &BTreeMap<String, ByteString>) -> Result<String, String> {
    let mut pieces = text.split('{');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (part, rest) = piece.split_once('}').ok_or_else(|| piece.to_owned())?;
        let value = values.get(part).ok_or_else(|| part.to_owned())?;
        filled.push_str(std::str::from_utf8(&value.0).map_err(|_| part.to_owned())?);
        filled.push_str(rest);
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(wanted: &str) -> Result<Vec<(String, String)>, String> {
        let wanted: Wanted = serde_json::from_str(wanted).map_err(|error| error.to_string())?;
        let secret = wanted.make("home", |bytes| vec![0xfb; bytes]).map_err(|e| e.to_string())?;
        let text =
            |value: ByteString| String::from_utf8(value.0).unwrap_or_else(|_| "bytes".to_owned());
        let data = secret.data.unwrap_or_default();
        Ok(data.into_iter().map(|(key, value)| (key, text(value))).collect())
    }

    fn check(wanted: &str, expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        assert_eq!(made(wanted), Ok(expected.collect()), "{wanted}");
    }

    #[test]
    fn a_secret_is_made_as_it_is_asked_for() {
        check(
            r#"{"name": "a", "keys": [{"key": "key", "bytes": 2, "encoding": "hex"}]}"#,
            &[("key", "fbfb")],
        );
        check(
            r#"{"name": "a", "keys": [{"key": "key", "bytes": 3, "encoding": "base64url"}]}"#,
            &[("key", "-_v7")],
        );
        check(
            r#"{"name": "a", "keys": [{"key": "key", "bytes": 3, "encoding": "raw"}]}"#,
            &[("key", "bytes")],
        );
        check(
            r#"{"name": "a", "keys": [{"key": "p", "bytes": 1, "encoding": "hex"},
                                      {"key": "url", "text": "postgres://famulus:{p}@db:5432/x"}]}"#,
            &[("p", "fb"), ("url", "postgres://famulus:fb@db:5432/x")],
        );
    }

    #[test]
    fn a_text_of_an_unknown_part_is_refused() {
        let error = made(r#"{"name": "a", "keys": [{"key": "url", "text": "x{password}"}]}"#);
        let error = error.expect_err("there is no password");
        assert!(error.contains("Secret a") && error.contains("\"password\""), "{error}");
    }

    #[test]
    fn an_unknown_field_is_refused() {
        assert!(made(r#"{"name": "a", "keys": [{"key": "k", "bytes": 1}]}"#).is_err());
        assert!(made(r#"{"name": "a", "keys": [], "labels": {}}"#).is_err());
    }

    /// The claims that a Job is told of by its environment, as they are made.
    fn claimed(told: Option<&str>) -> Result<Vec<serde_json::Value>, String> {
        let environment = |name: &str| match name {
            "FAMULUS_BOOTSTRAP_CLAIMS" => told.map(str::to_owned),
            _ => None,
        };
        let claims = claims(&Environment(&environment)).map_err(|error| error.to_string())?;
        let made = claims.into_iter().map(|claim| serde_json::to_value(claim.make("home")));
        Ok(made.map(Result::unwrap).collect())
    }

    #[test]
    fn a_claim_is_made_as_it_is_asked_for() {
        let asked = json!([
            {"name": "a", "storage": "10Gi"},
            {"name": "b", "storage": "1Gi", "storageClass": "slow"},
        ]);
        let labels = json!({
            "app.kubernetes.io/name": "famulus",
            "app.kubernetes.io/instance": "home",
            "app.kubernetes.io/component": "backup",
        });
        let expected = |name: &str, storage: &str| {
            let resources = json!({"requests": {"storage": storage}});
            json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "labels": labels},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
            })
        };
        let mut slow = expected("b", "1Gi");
        slow["spec"]["storageClassName"] = json!("slow");
        assert_eq!(claimed(Some(&asked.to_string())).unwrap(), [expected("a", "10Gi"), slow]);
    }

    #[test]
    fn a_chart_that_says_nothing_of_claims_wants_none() {
        assert_eq!(claimed(None), Ok(Vec::new()));
        assert_eq!(claimed(Some("")), Ok(Vec::new()));
        assert_eq!(claimed(Some("[]")), Ok(Vec::new()));
    }

    #[test]
    fn a_claim_that_cannot_be_read_is_refused() {
        for told in ["{}", r#"[{"name": "a"}]"#, "10Gi"] {
            let error = claimed(Some(told)).expect_err(told);
            assert!(error.contains("FAMULUS_BOOTSTRAP_CLAIMS"), "{error}");
        }
    }
}
