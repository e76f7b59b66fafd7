//! A plugin whose tools write down on its volume that they ran.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use famulus_cluster_tests::release::Release;

pub(crate) const PLUGIN: &str = "ledger";

/// Two lines for each call: one when it begins, one when it ends.
const MARK: &str = r#"#!/bin/sh
given=$(cat)
id=$(printf %s "$given" | sed 's/.*"id" *: *"\([^"]*\)".*/\1/')
seconds=$(printf %s "$given" | sed 's/.*"seconds" *: *\([0-9.]*\).*/\1/')
echo "begin $id" >>../marks
sleep "$seconds"
echo "end $id" >>../marks
printf '{"done": "%s"}\n' "$id"
"#;

const READ: &str = "#!/bin/sh\ncat ../marks || true\n";

/// How often a call began and ended.
pub(crate) type Marks = BTreeMap<String, (usize, usize)>;

pub(crate) async fn apply(release: &Release) {
    let tool = |name: &str, is_late: bool| {
        let parameters = json!({
            "id": {"type": "string", "description": "Its name."},
            "seconds": {"type": "number", "description": "How long."},
        });
        let manifest = json!({
            "name": name, "description": "Writes down that it ran.", "entrypoint": "run.sh",
            "async": is_late, "concurrent": true, "parameters": parameters,
        });
        manifest.to_string()
    };
    let read = json!({
        "name": "read", "description": "Reads it.", "entrypoint": "run.sh", "parameters": {},
    });
    let manifest = json!({"name": PLUGIN, "description": "Keeps a ledger."});
    let file = |path: &str, content: &str| json!({"path": path, "content": content});
    let files = [
        file("manifest.json", &manifest.to_string()),
        file("mark/manifest.json", &tool("mark", false)),
        file("mark/run.sh", MARK),
        file("later/manifest.json", &tool("later", true)),
        file("later/run.sh", MARK),
        file("read/manifest.json", &read.to_string()),
        file("read/run.sh", READ),
    ];
    let plugin = json!({
        "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": PLUGIN},
        "spec": {
            "name": PLUGIN, "source": {"inline": {"files": files}}, "permissions": {"tools": ["*"]},
        },
    });
    release.apply(&plugin.to_string()).await;
    release.condition(PLUGIN, "Ready=True").await;
}

/// What stands on the volume.
pub(crate) async fn marks(release: &Release) -> Marks {
    let lines = release.run(PLUGIN, "read", &json!({})).await;
    let mut marks = Marks::new();
    for line in text_of(&lines).lines() {
        let mark = line.split_once(' ');
        let (kind, id) = mark.unwrap_or_else(|| panic!("no mark: {line:?}"));
        let counts = marks.entry(id.to_owned()).or_default();
        match kind {
            "begin" => counts.0 += 1,
            "end" => counts.1 += 1,
            other => panic!("no mark: {other}"),
        }
    }
    marks
}

fn text_of(lines: &str) -> String {
    let last: Value = serde_json::from_str(lines.trim().lines().last().unwrap()).unwrap();
    let text = last["result"]["runs"][0]["output"]["text"].as_str();
    text.unwrap_or_else(|| panic!("{last}")).to_owned()
}
