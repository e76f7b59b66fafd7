//! Plugins that reach the internet, and are fetched from there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use famulus_core::plugin::Egress;
use famulus_core::sandbox::{SandboxError, Sandboxes};
use famulus_machine::{PluginRecord, StepError};
use famulus_protocol::revision::{BuildSource, Bundled};
use serde_json::json;

use crate::bench::{Bench, borrowed, files, in_world};
use crate::world::{FAR, NEIGHBOUR, OWN, World};

/// Says of addresses whether they are reached.
fn reaching() -> String {
    format!(
        "#!/usr/bin/env python3
import socket
def attempt(address):
    try:
        with socket.create_connection((address, 80), 3) as one:
            one.sendall(b'hello')
            one.shutdown(socket.SHUT_WR)
            return one.recv(10).decode()
    except OSError as error:
        return type(error).__name__
print(*map(attempt, ('{FAR}', '{NEIGHBOUR}', '{OWN}')))
"
    )
}

fn git(folder: &Path, words: &[&str]) {
    let author = ["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"];
    let output = Command::new("git").args(author).args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A repository with these files, all of which may be executed.
pub(crate) fn repository(folder: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    git(folder, &["init", "--quiet"]);
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "--message=m"]);
}

#[test]
fn a_plugin_is_fetched_from_git_and_reaches_what_it_may() {
    let repositories = tempfile::tempdir().unwrap();
    let world = || {
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(repositories.path(), all).unwrap();
        let plugin = repositories.path().join("reach");
        repository(&plugin, &borrowed(&files("reach", "reach", false, &reaching())));
        let mut world = World::new();
        // Another name of it starts this one, and leaves it behind.
        let programs = Command::new("git").arg("--exec-path").output().unwrap().stdout;
        let daemon = format!("{}/git-daemon", String::from_utf8(programs).unwrap().trim());
        let folder = repositories.path().to_str().unwrap();
        let base = format!("--base-path={folder}");
        world.serve(&[&daemon, "--export-all", "--reuseaddr", "--verbose", &base, folder]);
        world
    };
    let name = "internet::a_plugin_is_fetched_from_git_and_reaches_what_it_may";
    in_world(name, world, async || {
        let bench = Bench::new().await;
        assert_eq!(bench.machine.refused(), None);
        assert_eq!(bench.machine.no_internet(), None);
        let record = bench.add("reach");
        let source = |host: &str| BuildSource::Git {
            url: format!("git://{host}/reach"),
            r#ref: "main".to_owned(),
        };
        // A private address is one in a sandbox, too, whatever the program in it thinks of that.
        let refused = bench.machine.bundle(&record.uid, source(NEIGHBOUR), Vec::new()).await;
        assert!(matches!(&refused, Err(StepError::Failed(_))), "{refused:?}");
        let bundled = bench.machine.bundle(&record.uid, source("far.example"), Vec::new()).await;
        let Bundled::Done { revision, commit, tools, .. } = bundled.unwrap() else { panic!() };
        assert!(commit.is_some());
        bench.machine.build(&record.uid).await.unwrap();
        let record = PluginRecord { revision: Some(revision), tools, rendered: 2, ..record };
        bench.machine.put(record.clone()).unwrap();
        let none = "OSError OSError OSError";
        assert_eq!(bench.call("reach", "reach", json!({})).await.unwrap(), none);

        // What it may reach changes with the next call, and back.
        let refused = "ConnectionRefusedError";
        let public = format!("hello {refused} {refused}");
        for (egress, reached) in [(Egress::Internet, public.as_str()), (Egress::None, none)] {
            let rendered = record.rendered + 1;
            bench.machine.put(PluginRecord { egress, rendered, ..record.clone() }).unwrap();
            assert_eq!(bench.call("reach", "reach", json!({})).await.unwrap(), reached);
            let state = bench.calls.plugins().await.unwrap().remove(0);
            assert_eq!(state.egress, if egress == Egress::None { "None" } else { "Internet" });
        }
        // A private host that the owner named is fetched from.
        let also = vec![format!("{NEIGHBOUR}:9418")];
        bench.machine.bundle(&record.uid, source(NEIGHBOUR), also).await.unwrap();
    });
}

/// Here nobody may make an interface.
#[test]
fn without_the_internet_the_rest_works_and_why_is_said() {
    let world = || {
        let world = World::new();
        world.in_machine("rm /dev/net/tun");
        world
    };
    let name = "internet::without_the_internet_the_rest_works_and_why_is_said";
    in_world(name, world, async || {
        let bench = Bench::new().await;
        assert_eq!(bench.machine.refused(), None);
        let why = bench.machine.no_internet().unwrap();
        assert!(why.message.contains("load the module tun"), "{}", why.message);
        let record = bench.add("reach");
        let url = format!("git://{FAR}/reach");
        let source = BuildSource::Git { url, r#ref: "main".to_owned() };
        let refused = bench.machine.bundle(&record.uid, source, Vec::new()).await.unwrap_err();
        assert!(refused.to_string().contains("load the module tun"), "{refused}");
        let program = reaching();
        let files = files("reach", "reach", false, &program);
        let record = bench.install(&record, &borrowed(&files)).await;
        let none = "OSError OSError OSError";
        assert_eq!(bench.call("reach", "reach", json!({})).await.unwrap(), none);
        let rendered = record.rendered + 1;
        let wanted = PluginRecord { egress: Egress::Internet, rendered, ..record };
        bench.machine.put(wanted).unwrap();
        let refused = bench.call("reach", "reach", json!({})).await.unwrap_err();
        assert!(
            matches!(&refused, SandboxError::NotReady { reason, .. } if reason == "NoInternet")
        );
    });
}
