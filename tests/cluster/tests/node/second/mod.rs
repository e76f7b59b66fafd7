//! A second release beside the first, with a model of its own: it runs Node, follows the guides, and
//! tells none of its secrets.
//!
//! ```text
//! release `second` ─► model.second (a Pod that writes down what it is sent, and calls tools)
//!                  ─► house.second-house (a Postgres that it did not bring)
//! ```

mod canary;
mod database;
mod guides;
mod install;
mod packages;
mod private;
mod told;

use serde_json::json;

use famulus_cluster_tests::beside::{Repository, plugin};
use famulus_cluster_tests::kubectl::objects;
use famulus_cluster_tests::release::{self, Release};

use crate::examples;

const KEEPER: &str = "keeper";

/// It holds a key, uses it, and never says it.
fn keeper() {
    let repository = Repository::new(KEEPER);
    let config = json!({"api_key": {"description": "The key.", "required": true}});
    let manifest = json!({"name": KEEPER, "description": "Keeps a key.", "config": config});
    repository.write("manifest.json", &manifest.to_string());
    let script = "#!/usr/bin/env python3\nimport hashlib, json, sys\nfrom pathlib import Path\n\
                  key = json.loads(Path(\"../config.json\").read_text())[\"api_key\"]\n\
                  seen = {\"digest\": hashlib.sha256(key.encode()).hexdigest()[:12]}\n";
    for (tool, is_async, end) in [
        ("use", false, "print(json.dumps(seen))\n"),
        ("fail", false, "sys.exit(f\"refused with {seen}\")\n"),
        ("later", true, "print(json.dumps(seen))\n"),
    ] {
        let manifest = json!({
            "name": tool, "description": format!("It is {tool}."), "entrypoint": "run.py",
            "async": is_async, "parameters": {},
        });
        repository.write(&format!("{tool}/manifest.json"), &manifest.to_string());
        repository.write(&format!("{tool}/run.py"), &format!("{script}{end}"));
    }
    repository.push("All of it");
}

#[tokio::test]
async fn a_second_release_runs_node_follows_the_guides_and_tells_no_secret() {
    let canaries = install::install().await;
    let release = Release::open_as(install::NAME.to_owned()).await;
    keeper();
    let secret = json!({"configSecretRef": {"name": install::CONFIG}});
    release.apply(&plugin(KEEPER, &secret)).await;
    examples::ask_for(&release, "slug", json!({})).await;
    guides::ask_for(&release).await;
    packages::ask_for(&release).await;
    private::ask_for(&release).await;

    // npm puts a package in place while it is built, which is there when it is used.
    release.condition("slug", "Ready=True").await;
    let given = json!([{"title": "Über Ärger"}, {"title": "A  plain Title!"}]);
    let reply = release.chat(&format!("run make_slug of slug with {given}")).await;
    for slug in ["uber-arger", "a-plain-title"] {
        assert!(reply.contains(&format!("{{\"slug\":\"{slug}\"}}")), "{reply}");
    }

    told::secrets(&release, &canaries).await;
    let mut names = guides::answer(&release).await;
    names.push(packages::answer(&release).await);
    names.push(private::answer(&release).await);

    // The first release sees nothing of this one.
    let first = release::name();
    let theirs = objects(&format!("{first}-sandbox"), "plugins", "").await;
    let is_ours = |name: &str| theirs.iter().any(|plugin| plugin["metadata"]["name"] == *name);
    assert!(!is_ours("slug") && !is_ours(KEEPER) && !is_ours("my-plugin"));
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["slug", KEEPER]).collect();
    release.delete(&names).await;
    drop(release);
    install::uninstall().await;
}
