//! Real repositories from a real git daemon, good ones and tricky ones.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::daemon::{Daemon, Repository};
use crate::house::{House, MANIFEST, tool};

fn plain(repository: &Repository) {
    repository.write("manifest.json", MANIFEST);
    repository.write("t/manifest.json", tool("t"));
    repository.write("t/run", "#!/bin/sh\necho one\n");
}

fn kept(house: &House, revision: &str) -> Vec<(String, Vec<u8>)> {
    let hex = revision.strip_prefix("sha256:").unwrap();
    let bundle = house.kept.lock().bundles[hex].clone();
    let mut archive = tar::Archive::new(&bundle[..]);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        (path, content)
    });
    entries.collect()
}

#[tokio::test]
async fn a_branch_a_tag_and_a_commit_are_looked_up_once() {
    let (house, daemon) = (House::new().await, Daemon::start());
    let hosts = [daemon.host()];
    let repository = daemon.repository("plugin.git");
    plain(&repository);
    let first = repository.commit();
    repository.git(&["tag", "--annotate", "--message=m", "v1"]);
    repository.git(&["branch", "feature/x-1"]);
    repository.write("t/run", "#!/bin/sh\necho two\n");
    let second = repository.commit();
    repository.write("t/run", "#!/bin/sh\necho one\n");
    let third = repository.commit();

    let mut revisions = Vec::new();
    for (reference, commit) in [
        ("HEAD", &third),
        ("main", &third),
        ("v1", &first),
        ("feature/x-1", &first),
        (second.as_str(), &second),
        (first.as_str(), &first),
    ] {
        house.order_of("test", daemon.source("plugin.git", reference), &hosts);
        let (revision, found) = house.bundle().await;
        assert_eq!(found.as_ref(), Some(commit), "{reference}");
        revisions.push(revision);
    }
    // What a revision is named by is its files, not its history.
    assert_eq!(revisions[0], revisions[2]);
    assert_ne!(revisions[0], revisions[4]);

    for reference in ["no-such", "v2", &"0a".repeat(20)] {
        house.order_of("test", daemon.source("plugin.git", reference), &hosts);
        let (reason, message) = house.bundle_failure().await;
        assert_eq!(reason, "RefNotFound", "{reference}: {message}");
        assert!(message.contains(reference), "{message}");
    }
    house.order_of("test", daemon.source("other.git", "main"), &hosts);
    assert_eq!(house.bundle_failure().await.0, "SourceUnreachable");
}

#[tokio::test]
async fn a_private_or_silent_host_is_unreachable_in_plain_words() {
    let (house, daemon) = (House::new().await, Daemon::start());
    plain(&daemon.repository("plugin.git"));
    house.order_of("test", daemon.source("plugin.git", "main"), &[]);
    let (reason, message) = house.bundle_failure().await;
    assert_eq!(reason, "SourceUnreachable");
    assert!(message.contains("127.0.0.1, which is not public; it leads no further"), "{message}");
    let source = json!({"git": {"url": "git://127.0.0.1:1/x.git", "ref": "main"}});
    house.order_of("test", source, &["127.0.0.1:1".to_owned()]);
    let (reason, message) = house.bundle_failure().await;
    assert_eq!(reason, "SourceUnreachable");
    assert!(message.contains("could not be fetched"), "{message}");
}

#[tokio::test]
async fn addresses_and_names_smuggle_nothing_to_git() {
    let house = House::new().await;
    let marker = house.path("tmp/marker");
    let touch = format!("touch {}", marker.display());
    let hosts = ["127.0.0.1:9418".to_owned(), "localhost:9418".to_owned()];
    let main = |url: String| json!({"git": {"url": url, "ref": "main"}});
    let named =
        |reference: String| json!({"git": {"url": "git://127.0.0.1/x.git", "ref": reference}});
    let tricks = [
        (main(format!("ext::sh -c {touch}")), "SourceUnreachable"),
        (main(format!("ext::{touch}")), "SourceUnreachable"),
        (main(format!("--upload-pack={touch}")), "SourceUnreachable"),
        (main(format!("ssh://-oProxyCommand={touch}/x")), "SourceUnreachable"),
        (main(format!("git://127.0.0.1/--upload-pack={touch}")), "SourceUnreachable"),
        (main("file:///etc".to_owned()), "SourceUnreachable"),
        (main("/etc".to_owned()), "SourceUnreachable"),
        (main("git@localhost:-x".to_owned()), "SourceUnreachable"),
        (main(format!("git@-oProxyCommand={touch}:x.git")), "SourceUnreachable"),
        (main("https://user:word@localhost/x.git".to_owned()), "SourceUnreachable"),
        (main("git://localhost%0aevil/x.git".to_owned()), "SourceUnreachable"),
        (named(format!("--upload-pack={touch}")), "RefNotFound"),
        (named("main:refs/heads/x".to_owned()), "RefNotFound"),
        (named("main\n--exec=x".to_owned()), "RefNotFound"),
        (named("main@{upstream}".to_owned()), "RefNotFound"),
        (named(String::new()), "RefNotFound"),
    ];
    for (source, expected) in tricks {
        house.order_of("test", source.clone(), &hosts);
        let (reason, message) = house.bundle_failure().await;
        assert_eq!(reason, expected, "{source}: {message}");
        assert!(!marker.exists(), "{source}");
    }
}

#[tokio::test]
async fn attributes_filters_hooks_and_other_repositories_have_no_say() {
    let (house, daemon) = (House::new().await, Daemon::start());
    let marker = house.path("tmp/marker");
    let hosts = [daemon.host()];
    let repository = daemon.repository("plugin.git");
    plain(&repository);
    let attributes = "* filter=evil text eol=crlf ident export-subst working-tree-encoding=UTF-16\n\
                      left.txt export-ignore\n*.bin filter=lfs diff=lfs merge=lfs -text\n";
    let config = format!(
        "[filter \"evil\"]\n\tsmudge = touch {0}\n\tclean = cat\n[core]\n\tfsmonitor = touch {0}\n\
         \thooksPath = hooks\n[alias]\n\tfetch = !touch {0}\n",
        marker.display()
    );
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n";
    let module =
        "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% /tmp/x\n\tupdate = !touch x\n";
    let files = [
        ("left.txt", "one\ntwo\n"),
        ("ident.txt", "$Id$ $Format:%H$\n"),
        (".gitconfig", &config),
        ("hooks/post-checkout", "#!/bin/sh\ntouch marker\n"),
        ("large.bin", pointer),
        (".gitmodules", module),
    ];
    for (path, content) in files {
        repository.write(path, content);
    }
    repository.git(&["add", "--all"]);
    // Added to the index alone, when everything else lies there byte for byte.
    let oid = "1".repeat(40);
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{oid},x")]);
    repository.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("100644,{},.gitattributes", repository.blob(attributes.as_bytes())),
    ]);
    repository.commit_tree(&repository.git(&["write-tree"]));
    // Hooks of the server's own repository are the server's, and are not sent.
    fs::write(repository.path.join(".git/hooks/post-checkout"), "#!/bin/sh\n").unwrap();

    house.order_of("test", daemon.source("plugin.git", "main"), &hosts);
    let (revision, _) = house.bundle().await;
    let found = kept(&house, &revision);
    for (path, content) in files {
        let (_, bytes) = found.iter().find(|(name, _)| name == path).unwrap();
        assert_eq!(String::from_utf8_lossy(bytes), content, "{path}");
    }
    assert!(!found.iter().any(|(path, _)| path == "x" || path.starts_with(".git/")), "{found:?}");
    assert!(!marker.exists());
}

#[tokio::test]
async fn trees_that_no_honest_git_writes_are_refused() {
    let (house, daemon) = (House::new().await, Daemon::start());
    let hosts = [daemon.host()];
    let repository = daemon.repository("plugin.git");
    let manifest = repository.blob(MANIFEST.as_bytes());
    let (script, link) = (repository.blob(b"#!/bin/sh\n"), repository.blob(b"../../../etc/passwd"));
    let absolute = repository.blob(b"/etc/passwd");
    let hook = repository.tree(&[("100755", b"post-checkout", &script)]);
    let hooks = repository.tree(&[("40000", b"hooks", &hook)]);
    let through = repository.blob(b"t");
    let base = ("100644", &b"manifest.json"[..], manifest.as_str());
    let cases = [
        ("up", repository.tree(&[("100644", b"../up", &script), base]), "`..`"),
        ("slash", repository.tree(&[("100644", b"/tmp/famulus-slash", &script), base]), "absolute"),
        ("git", repository.tree(&[("40000", b".git", &hooks), base]), "belongs to git"),
        ("GIT", repository.tree(&[("40000", b".GiT", &hooks), base]), "belongs to git"),
        ("link", repository.tree(&[("120000", b"link", &link), base]), "leaves the plugin"),
        ("absolute", repository.tree(&[("120000", b"link", &absolute), base]), "leaves the plugin"),
        (
            "through",
            repository.tree(&[("120000", b"d", &through), ("40000", b"d", &hook), base]),
            "beneath a file",
        ),
        ("twice", repository.tree(&[base, base]), "twice"),
        ("control", repository.tree(&[("100644", b"a\x1b[31m", &script), base]), "control"),
        ("binary", repository.tree(&[("100644", b"\xff\xfe", &script), base]), "no text"),
    ];
    for (name, tree, expected) in cases {
        repository.commit_tree(&tree);
        house.order_of("test", daemon.source("plugin.git", "main"), &hosts);
        let (reason, message) = house.bundle_failure().await;
        assert_eq!(reason, "BuildFailed", "{name}: {message}");
        assert!(message.contains(expected), "{name}: {message}");
    }
    assert!(!std::path::Path::new("/tmp/famulus-slash").exists());
    assert!(!house.path("up").exists() && !house.path("work/up").exists());
}

#[tokio::test]
async fn a_repository_that_grows_when_it_is_read_is_refused_soon() {
    let (house, daemon) = (House::new().await, Daemon::start());
    let hosts = [daemon.host()];
    let repository = daemon.repository("plugin.git");
    let manifest = repository.blob(MANIFEST.as_bytes());
    let base = ("100644", &b"manifest.json"[..], manifest.as_str());
    // Ten folders of ten folders …: ten thousand million files in a few hundred bytes.
    let mut level = repository.tree(&[("100644", b"f", &manifest)]);
    for _ in 0..10 {
        let names: Vec<[u8; 1]> = (b'0'..=b'9').map(|name| [name]).collect();
        let entries: Vec<(&str, &[u8], &str)> =
            names.iter().map(|name| ("40000", &name[..], level.as_str())).collect();
        level = repository.tree(&entries);
    }
    let many = repository.tree(&[("40000", b"d", &level), base]);
    // Zeros that a pack holds in a few kilobytes.
    let zeros = repository.blob(&vec![0; 70 * 1024 * 1024]);
    let large = repository.tree(&[("100644", b"zeros", &zeros), base]);
    for (tree, expected) in [(many, "more"), (large, "more than 64 MiB")] {
        repository.commit_tree(&tree);
        house.order_of("test", daemon.source("plugin.git", "main"), &hosts);
        let begun = Instant::now();
        let (reason, message) = house.bundle_failure().await;
        assert_eq!(reason, "BuildFailed", "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    }
}
