//! Volumes of plugins: emptied by their owner, with whatever holds them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use futures::future::join;
use serde_json::{Value, json};

use crate::beside::node;
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

    /// Has the node evict a Pod: the runner's room for answers is filled from the host, past its limit.
    /// The kubelet sees it within a minute or two, ends the Pod, and leaves it there.
    pub async fn evict(&self, pod: &str) {
        let found = object(&self.sandbox, "pod", pod).await.unwrap();
        let uid = found["metadata"]["uid"].as_str().unwrap();
        let room = node().join(format!("kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/kept"));
        fill(&room.join("fill")).unwrap_or_else(|error| panic!("{}: {error}", room.display()));
        until(&format!("{pod} is evicted"), LONG, async || {
            let found = object(&self.sandbox, "pod", pod).await;
            let status = found.as_ref().map_or(&Value::Null, |found| &found["status"]);
            // It is marked as failed only until its processes have ended well; the event stays.
            let has_ended = ["Failed", "Succeeded"].iter().any(|end| status["phase"] == **end);
            let events = objects(&self.sandbox, "events", "").await;
            let of_it = |event: &&Value| event["involvedObject"]["uid"] == uid;
            let was_evicted = events.iter().filter(of_it).any(|event| event["reason"] == "Evicted");
            if has_ended && was_evicted { Ok(()) } else { Err(status.to_string()) }
        })
        .await;
    }
}

/// Writes more than a runner keeps (256 MiB).
fn fill(path: &Path) -> io::Result<()> {
    io::copy(&mut io::repeat(0).take(300 << 20), &mut File::create(path)?)?;
    Ok(())
}
