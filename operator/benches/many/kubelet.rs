//! Plays the Job controller and the kubelet: every build gets a Pod, which says at once that it
//! went well. When its Job goes, so does the Pod.

use std::sync::Arc;

use famulus_crds::labels::{MANAGED_BY, OPERATOR};
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::place::SANDBOX;

/// Pods that are played at the same time.
const AT_A_TIME: usize = 16;

pub(crate) fn play(client: &Client) {
    let jobs: Api<Job> = Api::namespaced(client.clone(), SANDBOX);
    let pods: Api<Pod> = Api::namespaced(client.clone(), SANDBOX);
    let ours = watcher::Config::default().labels(&format!("{MANAGED_BY}={OPERATOR}"));
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    tokio::spawn(async move {
        let mut events = watcher::watcher(jobs, ours).boxed();
        while let Some(event) = events.next().await {
            let place = Arc::clone(&places).acquire_owned().await.unwrap();
            let pods = pods.clone();
            tokio::spawn(async move {
                match event.unwrap() {
                    Event::Apply(job) | Event::InitApply(job) => end_well(&pods, &job).await,
                    Event::Delete(job) => {
                        let at_once = DeleteParams::default().grace_period(0);
                        // It never had one, where its Plugin went before.
                        let _missing = pods.delete(&pod_of(&job), &at_once).await;
                    }
                    Event::Init | Event::InitDone => {}
                }
                drop(place);
            });
        }
    });
}

fn pod_of(job: &Job) -> String {
    format!("{}-x", job.name_any())
}

async fn end_well(pods: &Api<Pod>, job: &Job) {
    let template = serde_json::to_value(&job.spec.as_ref().unwrap().template).unwrap();
    let mut metadata = template["metadata"].clone();
    metadata["name"] = json!(pod_of(job));
    metadata["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "name": job.name_any(), "uid": job.uid(),
        "controller": true,
    }]);
    let pod = json!({"metadata": metadata, "spec": template["spec"]});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let made = match pods.create(&PostParams::default(), &pod).await {
        Ok(made) => made,
        // The Job changed, and has its Pod already.
        Err(kube::Error::Api(refusal)) if refusal.code == 409 => return,
        Err(error) => panic!("{error}"),
    };
    let status = json!({"status": status(&made)});
    pods.patch_status(&pod_of(job), &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

/// What the kubelet would report of a build that went well.
fn status(pod: &Pod) -> Value {
    let now = jiff::Timestamp::now().to_string();
    let revision = format!("sha256:{}", "a".repeat(64));
    let said = |container: &str| match container {
        "probe" => json!({"network": "closed", "detail": "played", "user_namespace": true}),
        "bundle" => json!({"done": {
            "revision": revision, "tools": ["say"], "required_keys": [], "config_keys": [],
        }}),
        _ => json!({"done": {"revision": revision}}),
    };
    let ended = |name: &String| {
        json!({
            "name": name, "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "message": said(name).to_string()}},
        })
    };
    let spec = pod.spec.as_ref().unwrap();
    let first: Vec<Value> =
        spec.init_containers.iter().flatten().map(|one| ended(&one.name)).collect();
    let last: Vec<Value> = spec.containers.iter().map(|one| ended(&one.name)).collect();
    json!({
        "phase": "Succeeded",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": now}],
        "initContainerStatuses": first,
        "containerStatuses": last,
    })
}
