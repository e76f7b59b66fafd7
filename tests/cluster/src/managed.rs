//! A plugin that the assistant brings, in editions that are told apart by what they say.

use serde_json::{Value, json};

/// Its init script leaves a sign: nothing of it has run while there is none.
#[must_use]
pub fn files(name: &str, says: &str) -> Value {
    let manifest = json!({
        "name": name, "description": "Says what it is.", "init": {"entrypoint": "init.sh"},
        "config": {"token": {"description": "A token."}},
    });
    let tool =
        json!({"name": "say", "description": "Says it.", "entrypoint": "run.sh", "parameters": {}});
    let program = format!("#!/bin/sh\necho \"{says}; $(cat ../built); $(cat ../config.json)\"\n");
    let file = |path: &str, content: String| json!({"path": path, "content": content});
    json!([
        file("manifest.json", manifest.to_string()),
        file("init.sh", format!("#!/bin/sh\necho 'built for {says}' > built\n")),
        file("say/manifest.json", tool.to_string()),
        file("say/run.sh", program),
    ])
}
