//! All objects of a cluster that belong to an installation or stand in its namespaces.

use std::collections::BTreeMap;

use serde_json::Value;

use famulus_cluster_tests::kubectl::{LONG, kubectl, until};
use famulus_cluster_tests::release::name;

/// What every namespace has without anybody's doing.
const OF_ALL: [(&str, &str); 2] =
    [("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")];

/// By kind: the names, with the namespace before them.
pub(crate) struct Left {
    kinds: BTreeMap<String, Vec<String>>,
    /// Claims that no volume was made for yet.
    unbound: Vec<String>,
    /// Who holds whom from being deleted.
    finalizers: Vec<String>,
}

impl Left {
    /// What there is once the last Pod has ended.
    pub(crate) async fn find() -> Self {
        until("the last Pod has ended", LONG, async || {
            let left = Self::now().await;
            match left.kinds.get("Pod").or_else(|| left.kinds.get("CiliumEndpoint")) {
                Some(pods) => Err(format!("{pods:?}")),
                None => Ok(left),
            }
        })
        .await
    }

    async fn now() -> Self {
        let mut left = Self { kinds: BTreeMap::new(), unbound: Vec::new(), finalizers: Vec::new() };
        for namespaced in ["true", "false"] {
            let scope = format!("--namespaced={namespaced}");
            let kinds = kubectl(&["api-resources", "--verbs=list", "-o", "name", &scope]).await;
            let is_state = |kind: &&str| !kind.starts_with("events");
            let kinds: Vec<&str> = kinds.lines().filter(is_state).collect();
            let said = kubectl(&["get", &kinds.join(","), "-A", "-o", "json"]).await;
            let list: Value = serde_json::from_str(&said).unwrap();
            for object in list["items"].as_array().unwrap() {
                left.note(object);
            }
        }
        left
    }

    fn note(&mut self, object: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, own) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        let namespace = text(&object["metadata"]["namespace"]);
        let claim = text(&object["spec"]["claimRef"]["namespace"]);
        let is_ours = |word: &str| word == name() || word.starts_with(&format!("{}-", name()));
        let is_of_all = OF_ALL.contains(&(kind.as_str(), own.as_str()));
        let is_named = own.contains(&name());
        if !(is_ours(&namespace) || is_ours(&claim) || is_named && namespace.is_empty())
            || is_of_all
        {
            return;
        }
        for finalizer in object["metadata"]["finalizers"].as_array().into_iter().flatten() {
            self.finalizers.push(format!("{kind} {own}: {}", text(finalizer)));
        }
        let named = if namespace.is_empty() { own } else { format!("{namespace}/{own}") };
        if kind == "PersistentVolumeClaim" && object["spec"]["volumeName"].is_null() {
            self.unbound.push(named.clone());
        }
        self.kinds.entry(kind).or_default().push(named);
    }

    /// Definitions, Plugins, volumes and Secrets, and the namespaces that they are in.
    pub(crate) fn is_data_alone(&self, plugins: usize) {
        let count = |kind: &str| self.kinds.get(kind).map_or(0, Vec::len);
        let kinds: Vec<&str> = self.kinds.keys().map(String::as_str).collect();
        let expected = [
            // Of the definition.
            "APIService",
            "CustomResourceDefinition",
            "Namespace",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Plugin",
            "Secret",
        ];
        assert_eq!(kinds, expected, "{:?}", self.kinds);
        assert_eq!(count("Plugin"), plugins);
        // Each Plugin has the Secret that its runner mounts and a claim, Postgres and the backups have both, too.
        let name = name();
        let secrets = ["root-key", "keeper-key", "token", "database", "backup-database"];
        let secrets = secrets.map(|of| format!("{name}/{name}-{of}"));
        let found = &self.kinds["Secret"];
        assert!(secrets.iter().all(|secret| found.contains(secret)), "{found:?}");
        assert_eq!(found.len(), secrets.len() + plugins, "{found:?}");
        let (data, backups) =
            (format!("{name}/data-{name}-postgres-0"), format!("{name}/{name}-backup"));
        let claims = &self.kinds["PersistentVolumeClaim"];
        assert!(claims.contains(&data) && claims.contains(&backups), "{claims:?}");
        assert_eq!(claims.len(), plugins + 2, "{claims:?}");
        // The volume for backups is made when the first of them is taken.
        let unbound = &self.unbound;
        assert!(unbound.iter().all(|claim| *claim == backups), "{unbound:?}");
        assert_eq!(count("PersistentVolume"), claims.len() - unbound.len());
        let of_ours = self.finalizers.iter().filter(|one| one.contains("famulus.dev/"));
        assert_eq!(of_ours.collect::<Vec<_>>(), Vec::<&String>::new());
    }

    /// The namespace of the release alone, which helm did not make and does not remove.
    pub(crate) fn is_nothing(&self) {
        let expected = BTreeMap::from([("Namespace".to_owned(), vec![name()])]);
        assert_eq!(self.kinds, expected);
        assert_eq!(self.finalizers, Vec::<String>::new());
    }
}
