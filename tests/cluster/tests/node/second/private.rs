//! A repository that asks who comes. The installation has a key for its host; who has none is told what to do.

use serde_json::{Value, json};

use famulus_cluster_tests::beside::{Repository, owner_of_private, plugin};
use famulus_cluster_tests::kubectl::{LONG, condition, object, until};
use famulus_cluster_tests::release::Release;

use super::guides::output;

const NAME: &str = "hidden";

/// What the owner puts into the Secret for repositories, with the password of a host that no plugin is at.
pub(super) fn credentials(password: &str) -> Value {
    let mut given = owner_of_private();
    given["netrc"] = json!(format!("machine far.example login reader password {password}\n"));
    given
}

fn from_there() -> String {
    let git = json!({"url": format!("root@git.example:{NAME}.git"), "ref": "main"});
    plugin(NAME, &json!({"source": {"git": git}}))
}

pub(super) async fn ask_for(release: &Release) {
    let repository = Repository::private(NAME);
    let manifest = json!({"name": NAME, "description": "Is not for everybody."});
    repository.write("manifest.json", &manifest.to_string());
    // No code of a plugin sees what it was fetched with.
    repository.tool(
        "say",
        "run.sh",
        "#!/bin/sh\nls -d /run/famulus/repositories 2>/dev/null\nenv | grep -i repositories\necho said\n",
    );
    repository.push("For who has the key");
    release.apply(&from_there()).await;
}

pub(super) async fn answer(release: &Release) -> String {
    let plugin = release.condition(NAME, "Ready=True").await;
    assert_eq!(plugin["status"]["commit"].as_str().map(str::len), Some(40), "{plugin}");
    assert_eq!(output(release, NAME, "say", &json!({})).await.trim(), "said");

    // The first release has no Secret for repositories.
    let first = Release::open().await;
    first.apply(&from_there()).await;
    until("who has no key is told what is missing", LONG, async || {
        let found = object(&first.sandbox, "plugin", NAME).await.unwrap();
        let built = condition(&found, "Built").map(|built| built["message"].to_string());
        match built {
            Some(said) if said.contains("plugins.repositories.existingSecret") => Ok(()),
            said => Err(said.unwrap_or_else(|| "no condition".to_owned())),
        }
    })
    .await;
    first.delete(&[NAME]).await;
    NAME.to_owned()
}
