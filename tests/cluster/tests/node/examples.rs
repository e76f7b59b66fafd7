//! Plugins of different make, fetched from a git daemon, built and used in Pods. What they answer is
//! computed here from what they were given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use famulus_cluster_tests::beside::{Repository, plugin};
use famulus_cluster_tests::kubectl::{condition, kubectl};
use famulus_cluster_tests::release::Release;

/// Where the plugins that come with the project are.
pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins").join(name)
}

/// Serves an example as it is in its folder, and asks for it.
pub(crate) async fn ask_for(release: &Release, name: &str, more: Value) {
    let repository = Repository::new(name);
    repository.copy(&example(name));
    repository.push("As it is");
    release.apply(&plugin(name, &more)).await;
}

#[tokio::test]
async fn the_examples_are_fetched_from_git_built_and_used() {
    let release = Release::open().await;
    samples(&release).await;
    let names = ["dice", "greeting", "notes", "proverb", "survey", "units", "wordcount"];
    let labels = json!({"famulus.dev/config-for": "units"});
    let values = json!({"name": "units-values", "labels": labels});
    let data = json!({"signature": "Yours, U."});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": values, "stringData": data});
    release.apply(&secret.to_string()).await;
    for name in names {
        let more = match name {
            "units" => json!({"configSecretRef": {"name": "units-values"}}),
            _ => json!({}),
        };
        ask_for(&release, name, more).await;
    }
    shell(&release).await;
    python(&release).await;
    state(&release).await;
    configuration(&release).await;
    files(&release).await;
    one_run_for_each(&release).await;
    later(&release).await;
    release.delete(&names).await;
    kubectl(&["-n", &release.sandbox, "delete", "secret", "units-values"]).await;
}

/// All of them at once, as an owner would try them.
async fn samples(release: &Release) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples/");
    kubectl(&["-n", &release.sandbox, "apply", "-f", folder]).await;
    let names = ["dice", "notes"];
    for name in names {
        release.condition(name, "Ready=True").await;
    }
    let told = release.told("Throw the die.").await;
    assert!((1..=6).contains(&told["thrown"].as_u64().unwrap()), "{told}");
    let told = release.told("run add_note of notes with title=tea text=green").await;
    assert_eq!(told, json!({"kept": "tea"}));
    release.delete(&names).await;
}

async fn shell(release: &Release) {
    release.condition("greeting", "Ready=True").await;
    let told = release.told("run greet of greeting with name=Ada").await;
    assert_eq!(told, json!({"greeting": "Hello, Ada!"}));
    let told = release.told("run greet of greeting").await;
    assert_eq!(told, json!({"greeting": "Hello, stranger!"}));
    let refused = release.chat("run greet of greeting with nmae=Ada").await;
    assert!(refused.contains("nmae"), "{refused}");
}

/// Its package comes with it, and `uv` puts it in place while the plugin is built.
async fn python(release: &Release) {
    let plugin = release.condition("proverb", "Ready=True").await;
    assert_eq!(plugin["spec"]["egress"]["mode"], "None");
    let told = release.told("run tell of proverb with number=4").await;
    assert_eq!(told, json!({"proverb": "What is written down is half done."}));
}

/// Its init script makes the folder that three tools share.
async fn state(release: &Release) {
    let plugin = release.condition("notes", "Ready=True").await;
    assert_eq!(plugin["status"]["tools"], json!(["add_note", "list_notes", "read_note"]));
    for (title, text) in [("tea", "two spoons"), ("coffee", "none left")] {
        let given = json!({"title": title, "text": text});
        let told = release.told(&format!("run add_note of notes with {given}")).await;
        assert_eq!(told, json!({"kept": title}));
    }
    assert_eq!(release.told("run list_notes of notes").await, json!(["coffee", "tea"]));
    let told = release.told("run read_note of notes with title=coffee").await;
    assert_eq!(told, json!({"text": "none left"}));
    let failed = release.chat("run read_note of notes with title=milk").await;
    assert!(failed.contains("the titles are ['coffee', 'tea']"), "{failed}");
}

/// A key from the owner's Secret, another from its default.
async fn configuration(release: &Release) {
    let plugin = release.condition("units", "Ready=True").await;
    assert_eq!(plugin["status"]["configKeys"], json!(["signature"]));
    let told = release.told("run convert of units with metres=250").await;
    let feet = (250.0_f64 / 0.3048 * 100.0).round() / 100.0;
    assert_eq!(told, json!({"feet": feet, "signature": "Yours, U."}));

    // Without the key that it requires, no tool runs, and it is said which key that is.
    let renamed = r#"[{"op": "move", "from": "/data/signature", "path": "/data/signed"}]"#;
    let patch = ["-n", &release.sandbox, "patch", "secret", "units-values"];
    kubectl(&[&patch[..], &["--type=json", "-p", renamed]].concat()).await;
    let plugin = release.condition("units", "Configured=False").await;
    let configured = condition(&plugin, "Configured").unwrap();
    assert_eq!(configured["reason"], "KeysMissing", "{configured}");
    assert!(configured["message"].as_str().unwrap().contains("signature"), "{configured}");
    let refused = release.chat("run convert of units with metres=250").await;
    assert!(refused.contains("signature"), "{refused}");
}

/// A stored file goes in, and what the tool leaves is stored.
async fn files(release: &Release) {
    release.condition("wordcount", "Ready=True").await;
    let text = "one two two three three three\n".repeat(20_000);
    let document = release.store(text.as_bytes()).await;
    let call = format!("run count of wordcount with {}", json!({"document": document}));
    let reply = release.chat(&call).await;
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    for word in text.split_whitespace() {
        *words.entry(word).or_default() += 1;
    }
    let count: usize = words.values().sum();
    let told = json!({"words": count, "different": words.len()});
    let is_told = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|it| it == told);
    assert!(reply.lines().any(is_told), "{reply}");

    assert!(reply.contains("[file: words.csv"), "{reply}");
    let id = reply.split(", id ").nth(1).unwrap_or_else(|| panic!("{reply}"));
    let table = release.stored(id.split(']').next().unwrap()).await;
    let mut sorted: Vec<(&str, usize)> = words.into_iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let lines: Vec<String> =
        sorted.iter().map(|(word, count)| format!("{word},{count}\n")).collect();
    assert_eq!(String::from_utf8(table).unwrap(), lines.concat());
}

async fn one_run_for_each(release: &Release) {
    release.condition("dice", "Ready=True").await;
    let seeds: Vec<Value> = (1..=5).map(|seed| json!({ "seed": seed })).collect();
    let lines = release.run("dice", "throw", &json!(seeds)).await;
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let runs = last["result"]["runs"].as_array().unwrap_or_else(|| panic!("{lines}"));
    let mut luck: BTreeMap<u64, usize> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        let told: Value = serde_json::from_str(run["output"]["text"].as_str().unwrap()).unwrap();
        assert_eq!(told["throws"], json!(number + 1), "{lines}");
        *luck.entry(told["throw"].as_u64().unwrap()).or_default() += 1;
    }
    assert_eq!(runs.len(), seeds.len());
    let reply = release.chat("run luck of dice").await;
    for (throw, times) in luck {
        assert!((1..=6).contains(&throw) && reply.contains(&format!("{times} {throw}")), "{reply}");
    }
}

async fn later(release: &Release) {
    release.condition("survey", "Ready=True").await;
    let reply = release.chat("run primes of survey with below=5000").await;
    assert!(reply.contains("is running; its call id is"), "{reply}");
    let is_prime = |number: &u32| (2..*number).all(|other| !number.is_multiple_of(other));
    let primes = (2..5000).filter(is_prime).count();
    release.hears(&format!("\\\"primes\\\": {primes}")).await;
}
