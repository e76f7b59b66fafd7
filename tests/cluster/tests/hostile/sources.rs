//! Where a plugin comes from: addresses that want to be options or commands, and repositories whose
//! files want to be elsewhere, to be run, or to be more than they are.

use serde_json::{Value, json};

use famulus_cluster_tests::kubectl;
use famulus_cluster_tests::kubectl::condition;
use famulus_cluster_tests::release::Release;

use crate::git::{Bare, Entry};
use crate::kinds::{Kind, classes, plugin, run, tool};

/// Lists its own tree, links not followed, with what each file begins with.
const LIST: &str = r#"#!/usr/bin/env python3
import json, os
found = {}
for folder, folders, names in os.walk(".."):
    for name in folders + names:
        path = os.path.join(folder, name)
        found[os.path.relpath(path, "..")] = "" if os.path.isdir(path) else open(path, "rb").read(80).decode()
print(json.dumps(found))
"#;

fn from_git(name: &str, repository: &str, reference: &str) -> String {
    let git = json!({"url": repository, "ref": reference});
    plugin(name, Kind::User, &[], &json!({"source": {"git": git}}))
}

#[tokio::test]
async fn an_address_or_a_name_that_is_an_option_or_a_command_is_refused() {
    let release = Release::open().await;
    let address = "spec.source.git.url";
    let reference = "spec.source.git.ref";
    let main = |url: &str| from_git("smuggled", url, "main");
    let named = |name: &str| from_git("smuggled", "git://git.example/x.git", name);
    let cases = [
        (main("ext::sh -c touch% /tmp/x"), address),
        (main("ext::touch /tmp/x"), address),
        (main("--upload-pack=touch /tmp/x"), address),
        (main("ssh://-oProxyCommand=touch/x"), address),
        (main("git://-oProxyCommand=touch/x"), address),
        (main("git://git.example/x.git --upload-pack=touch"), address),
        (main("file:///etc"), address),
        (main("/etc"), address),
        (main("git@git.example:-x"), address),
        (main("git@-oProxyCommand=touch:x.git"), address),
        (main("https://user:word@git.example/x.git"), address),
        (main("https://git.example@198.51.100.11/x.git"), address),
        (main("git://git.example/x.git\n--upload-pack=touch"), address),
        (main("fd::17/x"), address),
        (main("HTTPS+ext://git.example/x"), address),
        (named("--upload-pack=touch"), reference),
        (named("main:refs/heads/x"), reference),
        (named("main\n--exec=x"), reference),
        (named("main@{upstream}"), reference),
        (named("../../config"), reference),
        (named(""), reference),
    ];
    for (manifest, field) in cases {
        let refused = kubectl::apply(&release.sandbox, &manifest).await;
        let complaint = refused.expect_err(&manifest);
        assert!(complaint.contains(field), "{manifest}: {complaint}");
    }
}

#[tokio::test]
async fn repositories_of_tricks_are_refused_in_plain_words_or_are_files_and_no_more() {
    classes().await;
    let release = Release::open().await;
    let bare = Bare::new("tricks");
    let manifest = |name: &str| {
        bare.blob(json!({"name": name, "description": "Tries."}).to_string().as_bytes())
    };
    let (script, up) = (bare.blob(b"#!/bin/sh\n"), bare.blob(b"../../../etc/passwd"));
    let (absolute, through) = (bare.blob(b"/etc/passwd"), bare.blob(b"t"));
    let hook = bare.tree(&[("100755", b"post-checkout", &script)]);
    let hooks = bare.tree(&[("40000", b"hooks", &hook)]);
    // Ten folders of ten folders …: ten thousand million files in a few hundred bytes.
    let mut level = bare.tree(&[("100644", b"f", &script)]);
    for _ in 0..10 {
        let names = (b'0'..=b'9').map(|name| [name]).collect::<Vec<_>>();
        let entries = names.iter().map(|name| ("40000", &name[..], level.as_str()));
        level = bare.tree(&entries.collect::<Vec<_>>());
    }
    // Zeros that a pack holds in a few kilobytes.
    let zeros = bare.blob(&vec![0; 70 << 20]);

    let cases: [(&str, &[Entry], &str); 12] = [
        ("up", &[("100644", b"../up", &script)], "`..`"),
        ("slash", &[("100644", b"/tmp/x", &script)], "absolute"),
        ("git", &[("40000", b".git", &hooks)], "belongs to git"),
        ("case", &[("40000", b".GiT", &hooks)], "belongs to git"),
        ("link", &[("120000", b"link", &up)], "leaves the plugin"),
        ("absolute", &[("120000", b"link", &absolute)], "leaves the plugin"),
        ("through", &[("120000", b"d", &through), ("40000", b"d", &hook)], "beneath a file"),
        ("twice", &[("100644", b"a", &script), ("100644", b"a", &script)], "twice"),
        ("control", &[("100644", b"a\x1b[31m\n", &script)], "control"),
        ("binary", &[("100644", b"\xff\xfe", &script)], "no text"),
        ("many", &[("40000", b"d", &level)], "more"),
        ("zeros", &[("100644", b"zeros", &zeros)], "more than 64 MiB"),
    ];
    let name_of = |case: &str| format!("tricks-{case}");
    for (case, entries, _) in cases {
        let own = manifest(&name_of(case));
        let mut entries = entries.to_vec();
        entries.push(("100644", b"manifest.json", &own));
        bare.branch(case, &bare.tree(&entries));
        release.apply(&from_git(&name_of(case), "git://git.example/tricks.git", case)).await;
    }
    harmless(&release, &bare).await;
    for (case, _, words) in cases {
        let built = release.condition(&name_of(case), "Built=False").await;
        let built = condition(&built, "Built").unwrap();
        assert_eq!(built["reason"], "BuildFailed", "{case}: {built}");
        assert!(built["message"].as_str().unwrap().contains(words), "{case}: {built}");
    }
    let names = cases.map(|(case, _, _)| name_of(case));
    release.delete(&names.each_ref().map(String::as_str)).await;
}

/// Attributes, filters, hooks, submodules and configuration in a repository are files like others.
async fn harmless(release: &Release, bare: &Bare) {
    let name = "tricks-harmless";
    let files = [
        (
            "100644",
            ".gitattributes",
            "* filter=evil text eol=crlf ident export-subst\n*.bin filter=lfs\n",
        ),
        (
            "100644",
            ".gitconfig",
            "[filter \"evil\"]\n\tsmudge = touch canary\n[core]\n\tfsmonitor = touch canary\n",
        ),
        (
            "100644",
            ".gitmodules",
            "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% canary\n\tupdate = !touch canary\n",
        ),
        ("100644", "ident.txt", "$Id$ $Format:%H$\n"),
        (
            "100644",
            "large.bin",
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
        ),
    ];
    let blobs = files.map(|(mode, path, text)| (mode, path, bare.blob(text.as_bytes())));
    let manifest = json!({"name": name, "description": "Tries."}).to_string();
    let (manifest, of_tool) =
        (bare.blob(manifest.as_bytes()), bare.blob(tool("list", "run.py", &[]).as_bytes()));
    let list = bare.tree(&[
        ("100644", b"manifest.json", &of_tool),
        ("100755", b"run.py", &bare.blob(LIST.as_bytes())),
    ]);
    let hook = bare.blob(b"#!/bin/sh\ntouch canary\n");
    let hooks = bare.tree(&[("100755", b"post-checkout", &hook)]);
    let module = "1".repeat(40);
    let mut entries: Vec<Entry> =
        blobs.iter().map(|(mode, path, blob)| (*mode, path.as_bytes(), blob.as_str())).collect();
    entries.push(("40000", b"hooks", &hooks));
    entries.push(("40000", b"list", &list));
    entries.push(("100644", b"manifest.json", &manifest));
    entries.push(("160000", b"x", &module));
    entries.sort_by_key(|(_, path, _)| path.to_vec());
    bare.branch("harmless", &bare.tree(&entries));

    release.apply(&from_git(name, "git://git.example/tricks.git", "harmless")).await;
    release.condition(name, "Ready=True").await;
    let said = run(release, name, "list", &json!({})).await;
    let found: Value = serde_json::from_str(said["output"]["text"].as_str().unwrap()).unwrap();
    for (_, path, text) in files {
        let begins: String = text.chars().take(80).collect();
        assert_eq!(found[path], json!(begins), "{path}: {found}");
    }
    let has = |path: &str| found.get(path).is_some();
    assert!(has("hooks/post-checkout") && has("list/run.py"), "{found}");
    assert!(!found.to_string().contains("canary\"") && !has("canary"), "{found}");
    assert!(!has("x") && !has(".git"), "{found}");
    release.delete(&[name]).await;
}
