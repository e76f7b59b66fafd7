//! How a plugin runs.

use std::borrow::Cow;
use std::fmt;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::object_name;

/// The Pods that run a plugin's tools.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Runner {
    /// Runners that are wanted now. The assistant writes 1 here when a tool is called and none
    /// runs, and 0 after `idleSeconds`. More than `max` counts as `max`.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub replicas: i32,

    /// The most runners at a time. A Persistent plugin has one.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub max: i32,

    /// Seconds without a call after which the last runner ends.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 1, max = 604_800))]
    pub idle_seconds: i32,

    /// What a runner is given of the node. Left out, it is what the installation says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// The RuntimeClass of the runner's Pods, such as that of gVisor. Left out, it is what the
    /// installation says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = object_name("spec.runner.runtimeClassName", "a RuntimeClass", "gvisor"))]
    pub runtime_class_name: Option<String>,

    /// The image in which the plugin is built and runs. Left out, it is what the installation says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavour: Option<Flavour>,
}

/// What a plugin finds beside its own files.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// A shell, git, curl, Python and uv.
    Slim,
    /// Node, ssh and a C compiler too.
    Full,
}

impl Default for Runner {
    fn default() -> Self {
        Self {
            replicas: 0,
            max: one(),
            idle_seconds: five_minutes(),
            resources: None,
            runtime_class_name: None,
            flavour: None,
        }
    }
}

fn one() -> i32 {
    1
}

/// In seconds.
fn five_minutes() -> i32 {
    300
}

/// What a runner's container asks for and may use.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// What the node must have free for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Amounts>,

    /// What it gets at most. A call that comes near the memory limit is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Amounts>,
}

/// Amounts of what a node has.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub struct Amounts {
    /// Processor time, in cores: `2`, or `500m` for a half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,

    /// Memory, in bytes: `256Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,

    /// Disk outside the plugin's own volume, in bytes: `1Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<Quantity>,
}

/// An amount as Kubernetes writes it: a number, perhaps with a unit, as `500m` or `1.5Gi`. A whole
/// number may stand without quotes.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct Quantity(pub String);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = Quantity;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an amount such as 2, \"500m\" or \"256Mi\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity(text.to_owned()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// The pattern and the length are asked of texts only, the minimum of numbers only.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "pattern": "^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$",
            "maxLength": 20,
            "minimum": 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_texts_or_whole_numbers() {
        let read = |json: &str| serde_json::from_str::<Quantity>(json).map(|amount| amount.0);
        assert_eq!(read("\"500m\"").unwrap(), "500m");
        assert_eq!(read("2").unwrap(), "2");
        assert!(read("0.5").unwrap_err().to_string().contains("an amount such as 2"));
    }

    #[test]
    fn a_runner_that_is_left_out_is_the_runner_of_an_empty_one() {
        assert_eq!(serde_json::from_str::<Runner>("{}").unwrap(), Runner::default());
    }
}
