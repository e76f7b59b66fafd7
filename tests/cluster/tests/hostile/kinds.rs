//! The three kinds of Pods, side by side on one installation.

use std::fs;

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use famulus_cluster_tests::host::of_pod;
use famulus_cluster_tests::kubectl::{self, LONG, kubectl, object, ready_pod, until};
use famulus_cluster_tests::release::Release;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// runc, whose user ids are those of the node.
    Host,
    /// runc in a user namespace, as the installation prefers it.
    User,
    /// A kernel of its own.
    Gvisor,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Host, Self::User, Self::Gvisor];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::User => "user",
            Self::Gvisor => "gvisor",
        }
    }

    /// The class `host-users` is runc, too. The test's values list it among those without a user
    /// namespace, so that both are there at once.
    fn class(self) -> Option<&'static str> {
        match self {
            Self::Host => Some("host-users"),
            Self::User => None,
            Self::Gvisor => Some("gvisor"),
        }
    }
}

/// Tells the cluster of the class that is not its own; tests that begin at once do so once.
pub(crate) async fn classes() {
    static TOLD: OnceCell<()> = OnceCell::const_new();
    TOLD.get_or_init(tell).await;
}

async fn tell() {
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "host-users"}, "handler": "runc",
    });
    kubectl::apply("default", &class.to_string()).await.unwrap();
}

/// A plugin out of files, of a kind. Further fields of its spec go before these.
pub(crate) fn plugin(name: &str, kind: Kind, files: &[(&str, &str)], spec: &Value) -> String {
    let manifest = json!({"name": name, "description": "Wants more than its own."}).to_string();
    let mut all = vec![json!({"path": "manifest.json", "content": manifest})];
    all.extend(files.iter().map(|(path, content)| json!({"path": path, "content": content})));
    let mut whole = json!({
        "name": name, "source": {"inline": {"files": all}}, "permissions": {"tools": ["*"]},
        "runner": {"idleSeconds": 3600},
    });
    if let Some(class) = kind.class() {
        whole["runner"]["runtimeClassName"] = json!(class);
    }
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({
        "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name},
        "spec": whole,
    })
    .to_string()
}

/// A plugin whose `init.py` may take as long as a build; see [`plugin`] for the spec.
pub(crate) fn with_init(name: &str, kind: Kind, files: &[(&str, &str)], spec: &Value) -> String {
    let mut whole: Value = serde_json::from_str(&plugin(name, kind, files, spec)).unwrap();
    let manifest = &mut whole["spec"]["source"]["inline"]["files"][0]["content"];
    let mut content: Value = serde_json::from_str(manifest.as_str().unwrap()).unwrap();
    content["init"] = json!({"entrypoint": "init.py", "async": true});
    *manifest = json!(content.to_string());
    whole.to_string()
}

/// A plugin of one Python tool, which is told what to do; see [`plugin`] for the spec.
pub(crate) fn program(
    name: &str,
    kind: Kind,
    tool_of_it: &str,
    program: &str,
    spec: &Value,
) -> String {
    let (manifest, run) = (format!("{tool_of_it}/manifest.json"), format!("{tool_of_it}/run.py"));
    let of_tool = tool(tool_of_it, "run.py", &["what"]);
    plugin(name, kind, &[(&manifest, &of_tool), (&run, program)], spec)
}

/// The manifest of a tool that takes texts.
pub(crate) fn tool(name: &str, entrypoint: &str, texts: &[&str]) -> String {
    let parameter = json!({"type": "string", "description": "A text."});
    let parameters: serde_json::Map<String, Value> =
        texts.iter().map(|text| ((*text).to_owned(), parameter.clone())).collect();
    json!({"name": name, "description": "Tries.", "entrypoint": entrypoint,
        "parameters": parameters})
    .to_string()
}

/// The manifest of one that may take five minutes.
pub(crate) fn long(tool: &str) -> String {
    let mut manifest: Value = serde_json::from_str(tool).unwrap();
    manifest["async"] = json!(true);
    manifest.to_string()
}

/// What one run of a tool came to: its output, its files, its notes.
pub(crate) async fn run(release: &Release, plugin: &str, tool: &str, parameters: &Value) -> Value {
    let lines = release.run(plugin, tool, parameters).await;
    let mut events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let result = events.rfind(|event| event["event"] == "result");
    let result = result.unwrap_or_else(|| panic!("{plugin} {tool}: {lines}"));
    result["result"]["runs"][0].clone()
}

/// The Pod of a plugin.
pub(crate) async fn pod(release: &Release, plugin: &str) -> Value {
    let selector = format!("famulus.dev/plugin={plugin},famulus.dev/part=runner");
    ready_pod(&release.sandbox, &selector).await
}

/// Fails unless a plugin that is ready runs in a Pod of this kind, by the word of the API server and as the
/// machine sees it: otherwise what is tried there proves nothing of the kind. Starts the Pod.
pub(crate) async fn is_what_it_is(release: &Release, kind: Kind, name: &str) {
    kubectl(&["-n", &release.sandbox, "scale", "plugin", name, "--replicas=1"]).await;
    let pod = pod(release, name).await;
    let spec = &pod["spec"];
    assert_eq!(spec["runtimeClassName"].as_str(), kind.class(), "{name}: {spec}");
    let host_users = spec["hostUsers"].as_bool().unwrap_or(true);
    assert_eq!(host_users, kind != Kind::User, "{name}: {spec}");
    let plugin = until(&format!("the kind of {name} is known"), LONG, async || {
        let plugin = object(&release.sandbox, "plugin", name).await.unwrap();
        let known = plugin["status"]["isolation"]["userNamespace"].is_boolean();
        if known { Ok(plugin) } else { Err(plugin["status"].to_string()) }
    })
    .await;
    assert_eq!(plugin["status"]["isolation"]["userNamespace"], json!(kind == Kind::User), "{name}");
    looks_so(kind, name, &of_pod(&pod));
}

/// In gVisor the machine sees its kernel and no runner; elsewhere the runner, with users of the machine or
/// with its own.
fn looks_so(kind: Kind, name: &str, processes: &[i32]) {
    const KERNEL: &str = "runsc-sandbox";
    const RUNNER: &str = "/usr/local/bin/famulus-runner";
    let of = |pid: &i32, file: &str| {
        fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
    };
    let program = |pid: &i32| of(pid, "cmdline").split('\0').next().unwrap_or_default().to_owned();
    let programs: Vec<String> = processes.iter().map(program).collect();
    let has = |wanted: &str| programs.iter().any(|program| program == wanted);
    let expected = (kind == Kind::Gvisor, kind != Kind::Gvisor);
    assert_eq!((has(KERNEL), has(RUNNER)), expected, "{name}: {programs:?}");
    let runners = processes.iter().filter(|pid| program(pid) == RUNNER);
    let users = fs::read_to_string("/proc/self/uid_map").unwrap();
    for pid in runners {
        assert_eq!(of(pid, "uid_map") == users, kind == Kind::Host, "{name}: whose users are its?");
    }
}
