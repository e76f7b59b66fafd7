//! What is refused, and with which words.

use serde_json::{Value, json};

use crate::judge::refusals;

fn from_git() -> Value {
    json!({
        "apiVersion": "famulus.dev/v1alpha1",
        "kind": "Plugin",
        "metadata": {"name": "weather"},
        "spec": {
            "name": "weather",
            "source": {"git": {"url": "https://example.org/weather.git"}},
        },
    })
}

/// The same with another value in one place of the spec.
fn with(pointer: &str, value: Value) -> Value {
    let mut object = from_git();
    let mut place = &mut object["spec"];
    for name in pointer.split('/') {
        place = &mut place[name];
    }
    *place = value;
    object
}

fn inline(files: Value) -> Value {
    with("source", json!({ "inline": { "files": files } }))
}

fn git(url: &str) -> Value {
    with("source/git/url", json!(url))
}

#[track_caller]
fn accepted(object: &Value) {
    assert_eq!(refusals(object, None), Vec::<String>::new(), "{object}");
}

/// By one rule or bound only.
#[track_caller]
fn refused(object: &Value, words: &str) {
    let refusals = refusals(object, None);
    assert!(refusals.len() == 1 && refusals[0].contains(words), "{words}: {refusals:?}");
}

#[test]
fn the_least_is_a_name_and_a_source() {
    accepted(&from_git());
    for field in ["name", "source"] {
        let mut object = from_git();
        object["spec"].as_object_mut().unwrap().remove(field);
        refused(&object, &format!("\"{field}\" is a required property"));
    }
}

#[test]
fn null_is_the_same_as_left_out() {
    for field in
        ["revision", "configSecretRef", "permissions", "egress", "state", "runner", "suspend"]
    {
        accepted(&with(field, Value::Null));
    }
    accepted(&with("source/inline", Value::Null));
    refused(&with("source/git", Value::Null), "exactly one of inline and git");
}

#[test]
fn a_name_is_of_the_guides_letters_and_stays() {
    for name in ["weather", "a", "-", "2-b", &"a".repeat(63)] {
        accepted(&with("name", json!(name)));
    }
    for name in ["Weather", "my_plugin", "a.b", "a/b", "wetter\n", "grüße"] {
        refused(&with("name", json!(name)), "spec.name has a character that no plugin's name has");
    }
    refused(&with("name", json!("")), "shorter than 1 character");
    refused(&with("name", json!("a".repeat(64))), "longer than 63 characters");

    let renamed = refusals(&with("name", json!("climate")), Some(&from_git()));
    assert_eq!(renamed.len(), 1, "{renamed:?}");
    assert!(renamed[0].starts_with("spec.name: spec.name cannot change"), "{renamed:?}");
}

#[test]
fn a_state_stays_also_when_it_was_left_out() {
    let (ephemeral, persistent) =
        (with("state", json!("Ephemeral")), with("state", json!("Persistent")));
    for (before, now, allowed) in [
        (&from_git(), &persistent, true),
        (&persistent, &from_git(), true),
        (&ephemeral, &ephemeral, true),
        (&ephemeral, &from_git(), false),
        (&from_git(), &ephemeral, false),
    ] {
        let refusals = refusals(now, Some(before));
        let said = refusals.iter().any(|refusal| refusal.contains("spec.state cannot change"));
        assert_eq!((refusals.len(), said), (usize::from(!allowed), !allowed), "{refusals:?}");
    }
    refused(&with("state", json!("Sometimes")), "is not one of");
}

#[test]
fn a_source_is_one_source() {
    refused(&with("source", json!({})), "spec.source needs exactly one of inline and git");
    let manifest = json!([{"path": "manifest.json", "content": "{}"}]);
    refused(
        &with("source/inline", json!({ "files": manifest })),
        "spec.source needs exactly one of inline and git",
    );
}

#[test]
fn inline_files_are_small_in_all_bytes_counted() {
    let files = |sizes: &[usize], letter: &str| {
        let content = |size: &usize| letter.repeat(size / letter.len());
        let rest = sizes.iter().enumerate();
        let rest = rest.map(|(n, size)| json!({"path": format!("f{n}"), "content": content(size)}));
        let manifest = json!({"path": "manifest.json", "content": ""});
        inline(std::iter::once(manifest).chain(rest).collect())
    };
    accepted(&files(&[65_536], "a"));
    accepted(&files(&[32_768, 32_768], "ä"));
    let words = "spec.source.inline.files holds more than 65536 bytes in all";
    refused(&files(&[65_536, 1], "a"), words);
    refused(&files(&[32_768, 32_770], "ä"), words);
    refused(&files(&[65_537], "a"), "longer than 65536 characters");
    refused(&files(&[1; 64], "a"), "more than 64 items");
}

#[test]
fn inline_files_have_a_manifest_and_plain_paths() {
    let files = |path: &str| {
        inline(json!([
            {"path": "manifest.json", "content": "{}"},
            {"path": path, "content": ""},
        ]))
    };
    for path in ["a", "my_tool/run.sh", ".env", "a/.hidden/b.c", "a..b", "-a", "a/b/c/d/e"] {
        accepted(&files(path));
    }
    for path in
        ["/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "...", "a b", "a\\b", "a\n", "ä"]
    {
        refused(&files(path), "spec.source.inline.files has a path that is not plain");
    }
    refused(
        &inline(json!([{"path": "tool/manifest.json", "content": "{}"}])),
        "spec.source.inline.files has no manifest.json",
    );
}

#[test]
fn git_addresses_are_public_and_plain() {
    for url in [
        "https://example.org/weather.git",
        "http://git.example.org:3000/a/b",
        "git://198.51.100.7/weather",
        "git://[2001:db8::7]:9418/weather",
        "https://example.org/~somebody/weather.git?x=1",
        "https://example.org/@scope/weather",
        "ssh://git@example.org/a",
        "ssh://example.org:2222/a",
        "git@example.org:a/b.git",
        "git@example.org:/srv/a.git",
    ] {
        accepted(&git(url));
    }
    for url in [
        "file:///etc/passwd",
        "svn+ssh://git@example.org/a",
        "-x@example.org:a",
        "ext::sh -c id",
        "/srv/git/a",
        "--upload-pack=id",
        "HTTPS://example.org/a",
        " https://example.org/a",
    ] {
        let refusals = refusals(&git(url), None);
        let named =
            refusals.iter().any(|refusal| refusal.contains("has a scheme that is not fetched"));
        assert!(named, "{url}: {refusals:?}");
    }
    for url in [
        "https://token@example.org/a",
        "https://user:password@example.org/a",
        "https:///a",
        "https://-oProxyCommand=id/a",
        "https://example.org",
        "https://example.org/",
        "https://example.org/a b",
        "https://example.org/a\n",
        "https://example.org/ä",
        "ssh://git:password@example.org/a",
        "ssh://-oProxyCommand=id/a",
        "ssh://-x@example.org/a",
        "git@example.org:",
        "git@-oProxyCommand=id:a",
        "git@example.org:-x",
    ] {
        refused(&git(url), "spec.source.git.url is not a plain address");
    }
}

#[test]
fn git_refs_are_names_and_no_expressions() {
    let at = |name: &str| with("source/git/ref", json!(name));
    let commit = "0123456789abcdef0123456789abcdef01234567";
    for name in ["HEAD", "main", "v1.2", "feature/rain", "refs/tags/v1", "1.0+rain", commit] {
        accepted(&at(name));
    }
    for name in [
        "-main",
        "--upload-pack=id",
        "main~1",
        "main^",
        "a..b",
        "a b",
        "a:b",
        "a//b",
        "a/",
        "a.",
        "/a",
        ".a",
        "@{-1}",
        "main\n",
        "a\\b",
        "*",
    ] {
        refused(&at(name), "spec.source.git.ref is not the name of a branch, a tag or a commit");
    }
}

#[test]
fn a_revision_is_a_digest() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    accepted(&with("revision", json!(digest)));
    for revision in ["main", "", &digest[7..], &digest[..70], &digest.to_uppercase()] {
        refused(&with("revision", json!(revision)), "spec.revision is not a digest");
    }
    refused(&with("revision", json!(digest + "0")), "longer than 71 characters");
}

#[test]
fn permissions_name_tools() {
    let tools = |names: &[&str]| with("permissions", json!({ "tools": names }));
    accepted(&with("permissions", json!({})));
    accepted(&tools(&[]));
    accepted(&tools(&["*"]));
    accepted(&tools(&["look_up", "Look-Up.2", "nach schauen"]));
    refused(&tools(&["look/up"]), "spec.permissions.tools has an entry that is no tool's name");
    refused(&tools(&["a", "look\nup"]), "spec.permissions.tools has an entry");
    refused(&tools(&[""]), "shorter than 1 character");
    refused(&tools(&["a"; 257]), "more than 256 items");
}

#[test]
fn names_of_other_objects_are_names_of_objects() {
    let secret = |name: &str| with("configSecretRef", json!({ "name": name }));
    let class = |name: &str| with("runner", json!({ "runtimeClassName": name }));
    for name in ["a", "weather-config", "a.b"] {
        accepted(&secret(name));
        accepted(&class(name));
    }
    for name in ["A", "-a", "a-", "a_b", "a/b"] {
        refused(&secret(name), "spec.configSecretRef.name is no name that a Secret can have");
        refused(
            &class(name),
            "spec.runner.runtimeClassName is no name that a RuntimeClass can have",
        );
    }
}

#[test]
fn one_state_has_one_runner() {
    let words = "runner.max: spec.runner.max is more than 1, but the files of a Persistent plugin";
    refused(&with("runner", json!({"max": 2})), words);
    let mut object = with("runner", json!({"max": 2}));
    object["spec"]["state"] = json!("Ephemeral");
    accepted(&object);
    // The operator holds it to `max`: scaling must not fail.
    accepted(&with("runner", json!({"replicas": 2})));
}

#[test]
fn numbers_have_their_ends() {
    for (field, least, most) in [("replicas", 0, 100), ("max", 1, 100), ("idleSeconds", 1, 604_800)]
    {
        for (number, allowed) in
            [(least - 1, false), (least, true), (most, true), (most + 1, false)]
        {
            let mut object = with("runner", json!({ field: number }));
            object["spec"]["state"] = json!("Ephemeral");
            assert_eq!(refusals(&object, None).is_empty(), allowed, "{field}: {number}");
        }
    }
}

#[test]
fn amounts_are_those_of_kubernetes() {
    let limits = |amount: Value| with("runner", json!({"resources": {"limits": {"cpu": amount}}}));
    for amount in [json!(1), json!("1"), json!("500m"), json!("0.5"), json!("1.5Gi")] {
        accepted(&limits(amount));
    }
    for amount in [json!("much"), json!("-1"), json!(-1), json!("1 Gi"), json!("1GB")] {
        assert!(!refusals(&limits(amount.clone()), None).is_empty(), "{amount}");
    }
}

#[test]
fn egress_is_a_class_that_exists() {
    accepted(&with("egress", json!({"mode": "Internet"})));
    accepted(&with("egress", json!({})));
    refused(&with("egress", json!({"mode": "Everything"})), "is not one of");
}
