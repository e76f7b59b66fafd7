//! A plugin on its way from zero to a call and back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use famulus_cluster::{Cluster, Config};
use famulus_core::ids::PersonId;
use famulus_core::sandbox::{Progress, SandboxCall, Sandboxes};
use famulus_crds::bearer;
use famulus_crds::plugin::Plugin;
use famulus_lifecycle::Tasks;
use famulus_sandbox::{Ports, Timeouts};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bench::{KEY, PATIENCE, only, plugin, text_of};
use crate::ports::{Demand, Files};
use crate::runner::{Plugin as Tools, address};

/// A namespace with the rights of the chart in it.
struct Sandbox {
    admin: Client,
    app: Client,
    namespace: String,
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

/// The rules of the chart's Role for the app, as the committed manifests have them.
fn rules() -> Value {
    let base = include_str!("../../../../config/base/famulus.yaml");
    let role = base.split("\n---\n").find_map(|document| {
        let object: Value = serde_saphyr::from_str(document).ok()?;
        (object["kind"] == "Role" && object["metadata"]["name"] == "famulus-app").then_some(object)
    });
    role.unwrap()["rules"].clone()
}

impl Sandbox {
    async fn new() -> Self {
        let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut config = kube::Config::infer().await.unwrap();
        let admin = Client::try_from(config.clone()).unwrap();
        let namespace = format!("famulus-sandbox-{}", std::process::id());
        let user = format!("system:serviceaccount:{namespace}:famulus-app");
        config.auth_info.impersonate = Some(user);
        let app = Client::try_from(config).unwrap();

        let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
        for definition in famulus_crds::definitions() {
            // It may be there already.
            let _there = definitions.create(&PostParams::default(), &definition).await;
        }
        create(&Api::<Namespace>::all(admin.clone()), json!({"metadata": {"name": namespace}}))
            .await;
        let sandbox = Self { admin, app, namespace };
        let role = json!({"metadata": {"name": "famulus-app"}, "rules": rules()});
        create(&sandbox.api::<Role>(), role).await;
        let binding = json!({
            "metadata": {"name": "famulus-app"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "famulus-app"},
            "subjects": [{"kind": "ServiceAccount", "name": "famulus-app", "namespace": sandbox.namespace}],
        });
        create(&sandbox.api::<RoleBinding>(), binding).await;
        sandbox
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    async fn replicas(&self) -> i32 {
        self.api::<Plugin>().get("test").await.unwrap().spec.runner.replicas
    }

    async fn until_replicas(&self, expected: i32) {
        let begun = Instant::now();
        while self.replicas().await != expected {
            assert!(begun.elapsed() < PATIENCE, "{expected} are not wanted");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_plugin_goes_from_zero_to_a_call_and_back_with_the_rights_of_the_chart() {
    let sandbox = Sandbox::new().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), KEY).unwrap();
    let config = Config {
        sandbox_namespace: sandbox.namespace.clone(),
        root_key_file: folder.path().join("key"),
        callback_url: "http://127.0.0.1:9".to_owned(),
        timeouts: Timeouts::default(),
    };
    let tasks = Tasks::new();
    let (blobs, demand) = (Arc::<Files>::default(), Arc::<Demand>::default());
    let ports = Ports { blobs, demand };
    let cluster = Cluster::start(sandbox.app.clone(), config, ports, &tasks).unwrap();
    assert_eq!(cluster.plugins().await.unwrap(), []);

    let mut wanted = plugin("test", json!({"runner": {"idleSeconds": 2}}));
    wanted["metadata"] = json!({"name": "test"});
    let status = json!({"status": wanted["status"].take()});
    wanted.as_object_mut().unwrap().remove("status");
    let made = create(&sandbox.api::<Plugin>(), wanted).await;
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&status));
    sandbox.api::<Plugin>().patch_status("test", &parameters, &patch).await.unwrap();
    let begun = Instant::now();
    while cluster.plugins().await.unwrap().first().is_none_or(|plugin| !plugin.ready) {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let tools = Tools::new(&bearer::runner(KEY, made.metadata.uid.as_deref().unwrap(), 1));
    tools.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    let address = address();
    let call = SandboxCall {
        id: "c1".to_owned(),
        plugin: "test".to_owned(),
        tool: "echo".to_owned(),
        parameters: json!({}),
        files: Vec::new(),
        person: PersonId::new(),
        token: None,
        cancel: CancellationToken::new(),
        progress: Progress::none(),
    };
    let operator = async {
        sandbox.until_replicas(1).await;
        let pod = json!({
            "metadata": {"name": "one",
                "labels": {"famulus.dev/plugin": "test", "famulus.dev/part": "runner",
                    "famulus.dev/egress": "none"}},
            // Nobody places it: what runs is a process of this test.
            "spec": {"schedulerName": "nobody",
                "containers": [{"name": "runner", "image": "localhost/none:1"}]},
        });
        create(&sandbox.api::<Pod>(), pod).await;
        let ip = address.to_string();
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}});
        let patch = Patch::Merge(&status);
        sandbox.api::<Pod>().patch_status("one", &parameters, &patch).await.unwrap();
        tools.start(address)
    };
    let (answer, _runner) = tokio::join!(cluster.run(call), operator);
    assert_eq!(text_of(&only(answer)), "{}");
    // Nothing runs in the Pod; the right to ask is what counts.
    assert_eq!(cluster.logs("test").await.unwrap(), Vec::<String>::new());
    sandbox.until_replicas(0).await;

    // Nothing else is allowed.
    let pods: Api<Pod> = Api::namespaced(sandbox.app.clone(), &sandbox.namespace);
    let refused = pods.delete("one", &DeleteParams::default()).await.unwrap_err().to_string();
    assert!(refused.contains("forbidden"), "{refused}");
    tasks.shutdown();
    let namespaces: Api<Namespace> = Api::all(sandbox.admin.clone());
    namespaces.delete(&sandbox.namespace, &DeleteParams::default()).await.unwrap();
}
