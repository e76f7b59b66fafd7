//! Volumes of plugins: emptied by their owner, with whatever holds them.

use futures::future::join;
use serde_json::{Value, json};

use crate::kubectl::{LONG, condition, kubectl, object, objects, until};
use crate::release::Release;

impl Release {
    /// Deletes the volume of a plugin, as the refusal of a full one says, and waits for the next one.
    pub async fn empty(&self, plugin: &str) {
        let selector = format!("famulus.dev/plugin={plugin}");
        let claims = || async {
            let claims = objects(&self.sandbox, "pvc", &selector).await;
            claims.iter().map(|claim| claim["metadata"]["uid"].clone()).collect::<Vec<_>>()
        };
        let before = claims().await;
        assert_eq!(before.len(), 1, "{plugin} has one volume");
        kubectl(&["-n", &self.sandbox, "delete", "pvc", "-l", &selector, "--wait=false"]).await;
        until(&format!("{plugin} has another volume"), LONG, async || {
            let now = claims().await;
            if !now.is_empty() && now != before { Ok(()) } else { Err(self.holders(plugin).await) }
        })
        .await;
    }

    /// What the Plugin says of its volume, and its Pods.
    async fn holders(&self, plugin: &str) -> String {
        let selector = format!("famulus.dev/plugin={plugin}");
        let (found, pods) = join(
            object(&self.sandbox, "plugin", plugin),
            objects(&self.sandbox, "pods", &selector),
        )
        .await;
        let kept = found.as_ref().and_then(|found| condition(found, "StateKept"));
        let pods = pods.iter().map(|pod| {
            let (about, status) = (&pod["metadata"], &pod["status"]);
            json!([about["name"], about["deletionTimestamp"], status["phase"], status["reason"]])
        });
        format!("{}; {}", kept.unwrap_or(&Value::Null), pods.collect::<Value>())
    }

    /// As if the node had evicted a Pod: the kubelet ends it then, and it stays as it is.
    pub async fn evict(&self, pod: &str) {
        let status = r#"{"status":{"phase":"Failed","reason":"Evicted"}}"#;
        kubectl(&["-n", &self.sandbox, "patch", "pod", pod, "--subresource=status", "-p", status])
            .await;
    }
}
