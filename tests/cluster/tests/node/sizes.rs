//! How large a repository may be: one within the limits serves, one beyond them is refused in plain
//! words.

use serde_json::{Value, json};

use famulus_cluster_tests::beside::{Repository, plugin};
use famulus_cluster_tests::kubectl::condition;
use famulus_cluster_tests::release::Release;

const TOOLS: usize = 40;
const FILES: usize = 3_000;
const FILE_BYTES: usize = 7_000;

/// Bytes that no compression makes small, the same in every run.
fn noise(state: &mut u64, bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push(char::from(LETTERS[(*state >> 58) as usize]));
    }
    text
}

fn tool(repository: &Repository, name: &str, script: &str) {
    let manifest = json!({
        "name": name, "description": format!("It is {name}."), "entrypoint": "run.sh",
        "parameters": {},
    });
    repository.write(&format!("{name}/manifest.json"), &manifest.to_string());
    repository.write(&format!("{name}/run.sh"), script);
}

fn begin(name: &str) -> Repository {
    let repository = Repository::new(name);
    let manifest = json!({"name": name, "description": "It is large."});
    repository.write("manifest.json", &manifest.to_string());
    repository
}

#[tokio::test]
async fn twenty_megabytes_of_a_plugin_are_built_and_used() {
    let repository = begin("large");
    let mut state = 1;
    for number in 0..TOOLS {
        let script = format!("#!/bin/sh\ncat ../data/* | wc -c\necho {number}\n");
        tool(&repository, &format!("tool_{number}"), &script);
    }
    for number in 0..FILES {
        repository.write(&format!("data/{number}.txt"), &noise(&mut state, FILE_BYTES));
    }
    repository.push("All of it");

    let release = Release::open().await;
    release.apply(&plugin("large", &json!({}))).await;
    let plugin = release.condition("large", "Ready=True").await;
    assert_eq!(plugin["status"]["tools"].as_array().unwrap().len(), TOOLS);
    let lines = release.run("large", "tool_39", &json!({})).await;
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let told = last["result"]["runs"][0]["output"]["text"].as_str().unwrap();
    assert_eq!(told, format!("{}\n39\n", FILES * FILE_BYTES), "{lines}");
    release.delete(&["large"]).await;
}

#[tokio::test]
async fn a_plugin_beyond_the_limits_is_refused_in_plain_words() {
    let release = Release::open().await;
    let beyond = [
        ("too-many", 10_001, 1, "10000"),
        // To git it is one file and 65 names.
        ("too-heavy", 65, 1 << 20, "64 MiB"),
    ];
    for (name, files, bytes, _) in beyond {
        let repository = begin(name);
        tool(&repository, "try", "#!/bin/sh\necho {}\n");
        let content = "x".repeat(bytes);
        for number in 0..files {
            repository.write(&format!("data/{number}.txt"), &content);
        }
        repository.push("Too much");
        release.apply(&plugin(name, &json!({}))).await;
    }
    for (name, _, _, limit) in beyond {
        let plugin = release.condition(name, "Built=False").await;
        let built = condition(&plugin, "Built").unwrap();
        let message = built["message"].as_str().unwrap();
        assert!(message.contains(limit), "{name}: {built}");
        assert!(plugin["status"]["revision"].is_null(), "{plugin}");
    }
    release.delete(&beyond.map(|(name, ..)| name)).await;
}
