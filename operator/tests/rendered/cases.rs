//! Everything that is written for a few Plugins, as YAML.

use std::collections::BTreeMap;
use std::sync::Arc;

use famulus_crds::plugin::Plugin;
use famulus_operator::plugin::build::{BuildInput, Desired, build};
use famulus_operator::plugin::observe::{Config, Observed};
use famulus_operator::plugin::plan::plan;
use famulus_operator::plugin::record::{RECORD, Record, Revision};
use famulus_operator::plugin::validate::validate;
use famulus_operator::settings::{Pods, Settings};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use serde_json::{Value, json};

type Failed = Box<dyn std::error::Error>;

/// Name of the file, and what it holds.
pub(crate) fn all() -> Result<Vec<(String, String)>, Failed> {
    let git = json!({
        "name": "weather",
        "source": {"git": {"url": "https://git.example/weather.git", "ref": "main"}},
        "permissions": {"tools": ["*"]},
        "egress": {"mode": "Internet"},
        "runner": {"replicas": 1},
    });
    let inline = json!({
        "name": "dice",
        "source": {"inline": {"files": [{"path": "manifest.json", "content": "{}"}]}},
        "state": "Ephemeral",
        "runner": {
            "replicas": 9, "max": 2, "runtimeClassName": "gvisor",
            "resources": {"limits": {"cpu": 2, "memory": "512Mi"}},
        },
    });
    let plain: [(&str, &str); 0] = [];
    let rich = [
        ("ALLOW_HOSTS", "git.home:9418"),
        ("NODE_SELECTOR", r#"{"famulus": "yes"}"#),
        ("PULL_SECRETS", "registry"),
        ("STORAGE_CLASS", "fast"),
        ("TOLERATIONS", r#"[{"key": "famulus", "operator": "Exists"}]"#),
        ("USER_NAMESPACES", "Off"),
    ];
    Ok(vec![
        ("new.yaml".to_owned(), case(&git, None, &plain)?),
        ("serving.yaml".to_owned(), case(&git, Some("sha256:00"), &plain)?),
        ("ephemeral.yaml".to_owned(), case(&inline, Some("sha256:01"), &plain)?),
        ("settings.yaml".to_owned(), case(&git, None, &rich)?),
    ])
}

fn case(spec: &Value, serving: Option<&str>, settings: &[(&str, &str)]) -> Result<String, Failed> {
    let plugin = json!({
        "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin",
        "metadata": {
            "name": spec["name"], "namespace": "famulus-sandbox", "uid": "uid-of-the-plugin",
            "generation": 1,
        },
        "spec": spec,
    });
    let mut text = "# Generated: cargo run -p famulus-operator --example rendered\n".to_owned();
    for object in made(&plugin, serving, &pods(settings)?)? {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object)?);
    }
    Ok(text)
}

/// Everything that is written for a Plugin, of which a revision serves or none.
pub(crate) fn made(
    plugin: &Value,
    serving: Option<&str>,
    pods: &Pods,
) -> Result<Vec<Value>, Failed> {
    let observed = observed(plugin, serving)?;
    let valid = validate(&observed, pods).map_err(|refusal| refusal.message)?;
    let plan = plan(&valid, &observed, pods);
    let root_key = b"a-root-key-of-thirty-two-bytes!!";
    let keeper_key = Some(&b"the key of backups, all of its bytes"[..]);
    let from = BuildInput { valid: &valid, plan: &plan, pods, user: 34_567, root_key, keeper_key };
    let Desired { identity, mounted, state, runner, build } = build(from);
    let mut objects = vec![serde_json::to_value(identity)?, readable(mounted)?];
    if let Some(state) = state {
        objects.push(serde_json::to_value(state)?);
    }
    objects.push(serde_json::to_value(runner)?);
    if let Some((order, job)) = build {
        objects.extend([readable(order)?, serde_json::to_value(job)?]);
    }
    Ok(objects)
}

/// With its files as text.
fn readable(secret: Secret) -> Result<Value, Failed> {
    let files = secret.data.clone().unwrap_or_default();
    let mut object = serde_json::to_value(secret)?;
    for (name, bytes) in files {
        object["data"][name] = json!(String::from_utf8(bytes.0)?);
    }
    Ok(object)
}

/// What the operator is told.
pub(crate) fn pods(settings: &[(&str, &str)]) -> Result<Pods, Failed> {
    let plain = [
        ("CALLBACK_HOST", "10.96.3.4"),
        ("RELEASE", "famulus"),
        ("SANDBOX_NAMESPACE", "famulus-sandbox"),
        ("SYSTEM_NAMESPACE", "famulus"),
        ("ROOT_KEY_FILE", "/run/famulus/root-key/key"),
        ("RUNNER_IMAGE", "localhost/famulus/runner:0.1.0-slim"),
        ("RESOLVER", "10.96.3.5"),
        ("API_ADDRESS", "10.96.0.1:443"),
    ];
    let variables = plain
        .iter()
        .chain(settings)
        .map(|(name, value)| (format!("FAMULUS_OPERATOR_{name}").into(), (*value).into()));
    Ok(Settings::read(variables)?.pods)
}

fn observed(plugin: &Value, serving: Option<&str>) -> Result<Observed, Failed> {
    let spec = &plugin["spec"];
    let plugin: Plugin = serde_json::from_value(plugin.clone())?;
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {"name": "weather-state", "uid": "uid-of-the-claim"},
        "spec": {"storageClassName": "standard", "volumeName": "a-volume"},
    }))?;
    let mounted = serving.map(|digest| {
        let revision = Revision {
            digest: digest.to_owned(),
            commit: None,
            tools: Vec::new(),
            required_keys: Vec::new(),
            config_keys: Vec::new(),
            init_output: String::new(),
        };
        let volume = if spec["state"] == "Ephemeral" { "scratch" } else { "uid-of-the-claim" };
        let record = Record {
            rendered: 4,
            serving: Some(revision),
            volume: volume.to_owned(),
            ..Record::default()
        };
        let mut secret = Secret::default();
        secret.metadata.annotations = Some([(RECORD.to_owned(), record.text())].into());
        secret
    });
    Ok(Observed {
        plugin: Arc::new(plugin),
        taken_by: None,
        identity: None,
        claim: Some(Arc::new(claim)),
        runner: None,
        jobs: Vec::new(),
        pods: Vec::new(),
        sandbox_events: BTreeMap::new(),
        mounted,
        config: Config::Values {
            values: [("units".to_owned(), "metric".to_owned())].into(),
            unreadable: Vec::new(),
        },
        user: 34_567,
        now: "2026-11-21T10:00:00Z".parse()?,
    })
}
