//! What stands on the API server before the operator comes.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) const SYSTEM: &str = "famulus";
pub(crate) const SANDBOX: &str = "famulus-sandbox";
pub(crate) const ACCOUNT: &str = "famulus-operator";

pub(crate) async fn prepare(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in [SYSTEM, SANDBOX] {
        put(&namespaces, name, json!({"apiVersion": "v1", "kind": "Namespace"})).await;
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), SYSTEM);
    put(&accounts, ACCOUNT, json!({"apiVersion": "v1", "kind": "ServiceAccount"})).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}],
    });
    put(&bindings, ACCOUNT, binding).await;
    let classes: Api<StorageClass> = Api::all(client.clone());
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    put(&classes, "standard", class).await;
    let kinds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in famulus_crds::definitions() {
        let name = kind.metadata.name.clone().unwrap();
        put(&kinds, &name, serde_json::to_value(&kind).unwrap()).await;
        let is_served = |kind: CustomResourceDefinition| {
            let conditions = kind.status.and_then(|status| status.conditions).unwrap_or_default();
            conditions.iter().any(|one| one.type_ == "Established" && one.status == "True")
        };
        while !is_served(kinds.get(&name).await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn put<K>(api: &Api<K>, name: &str, mut object: Value)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
{
    object["metadata"]["name"] = json!(name);
    let params = PatchParams::apply("bench").force();
    api.patch(name, &params, &Patch::Apply(&object)).await.unwrap();
}

/// All objects, page by page.
pub(crate) async fn all<K>(api: &Api<K>) -> Vec<K>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut found = Vec::new();
    let mut params = ListParams::default().limit(500);
    loop {
        let page = api.list(&params).await.unwrap();
        found.extend(page.items);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => return found,
        }
    }
}
