//! The "internet" of a cluster: a second network on a cable to the node, with nothing behind it.
//!
//! ```text
//! Pods ── node (198.51.100.1) ── cable ── internet (198.51.100.10 and further)
//! ```
//!
//! Its addresses are of a range for documentation (RFC 5737), its names of a domain for examples
//! (RFC 2606), so no test can mean the real one. It sees the addresses of Pods as they are, and
//! reaches them if they let it. What it serves lies in the folder `internet` of the work folder;
//! files that appear there while the cluster runs are served at once.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;
use xtask_shell::output_of;
use xtask_shell::workspace::root;

use super::build::Programs;
use super::namespace::Namespaces;
use super::place::Place;
use super::processes::Process;
use super::ssh;

/// The folder of all that it serves: `git` (bare repositories), `ssh` (private ones), `index` (packages), `canary`.
pub(super) const FOLDER: &str = "internet";

/// Who answers for names there.
pub(super) const DNS: &str = "198.51.100.53";

/// The node's end of the cable.
const NODE_END: &str = "198.51.100.1";
const CABLE: &str = "internet0";

/// How its network is called among those of the cluster.
const NETWORK: &str = "internet";

/// A server there, by its name and its address.
pub(super) struct Host {
    pub(super) name: &'static str,
    pub(super) address: &'static str,
}

/// Whoever gets an answer from it has a way out.
pub(super) const CANARY: Host = Host { name: "canary.example", address: "198.51.100.10" };
/// Anonymous `git://`, for reading and for writing; ssh for who has the key.
pub(super) const GIT: Host = Host { name: "git.example", address: "198.51.100.11" };
/// Files over HTTP; below `simple` an index of Python packages, below `private` the same for whoever has
/// the password in the file `password`.
const INDEX: Host = Host { name: "pypi.example", address: "198.51.100.12" };

const HOSTS: [Host; 3] = [CANARY, GIT, INDEX];

/// The variants of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Internet {
    /// A network beside the node plays it
    Beside,
    /// Nothing but the node
    None,
}

impl Internet {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Beside => "beside",
            Self::None => "none",
        }
    }
}

/// Writes what it serves at first.
pub(super) fn prepare(place: &Place) -> Result<()> {
    for folder in ["git", "index/simple"] {
        place.make_folder(&format!("{FOLDER}/{folder}"))?;
    }
    place.write(&format!("{FOLDER}/canary/index.html"), "the canary sings\n")?;
    let names = HOSTS.iter().map(|host| format!("{} {}\n", host.address, host.name));
    place.write(&format!("{FOLDER}/hosts"), names.collect::<String>())?;
    // Repositories belong to whoever set them down.
    place.write(&format!("{FOLDER}/home/.gitconfig"), "[safe]\n\tdirectory = *\n")?;
    place.write(&format!("{FOLDER}/Corefile"), corefile(place))?;
    ssh::prepare(place)?;
    for example in fs::read_dir(root().join("examples/plugins"))? {
        publish(place, &example?.path())?;
    }
    Ok(())
}

/// Makes a repository of a plugin that comes with the project.
fn publish(place: &Place, tree: &Path) -> Result<()> {
    let name = tree.file_name().unwrap_or_default().to_string_lossy();
    let bare = place.text(&format!("{FOLDER}/git/{name}.git"));
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Famulus", "-c", "user.email=famulus@git.example"]);
        output_of(git.args(words).current_dir(tree)).map(drop)
    };
    git(&["init", "--quiet", "--bare", "--initial-branch", "main", &bare])?;
    let (bare, here) = (format!("--git-dir={bare}"), "--work-tree=.");
    git(&[&bare, here, "add", "--all", "."])?;
    git(&[&bare, here, "commit", "--quiet", "--message", "As it comes with Famulus"])
}

/// Makes its network and lays the cable.
pub(super) fn connect(namespaces: &Namespaces) -> Result<()> {
    let there = |words: &[&str]| namespaces.run(&[&["ip", "-n", NETWORK], words].concat());
    namespaces.run(&["ip", "netns", "add", NETWORK])?;
    namespaces.run(&[
        "ip", "link", "add", CABLE, "type", "veth", "peer", "name", "eth0", "netns", NETWORK,
    ])?;
    namespaces.run(&["ip", "address", "add", &format!("{NODE_END}/24"), "dev", CABLE])?;
    namespaces.run(&["ip", "link", "set", CABLE, "up"])?;
    there(&["link", "set", "lo", "up"])?;
    for address in HOSTS.iter().map(|host| host.address).chain([DNS]) {
        there(&["address", "add", &format!("{address}/24"), "dev", "eth0"])?;
    }
    there(&["link", "set", "eth0", "up"])?;
    there(&["route", "add", "default", "via", NODE_END])
}

/// Its servers.
pub(super) fn servers(place: &Place, programs: &Programs) -> Result<[Process; 5]> {
    let folder = |path: &str| place.text(&format!("{FOLDER}/{path}"));
    let coredns = programs.path("coredns")?.to_string_lossy().into_owned();
    let canary = format!("{}:80", CANARY.address);
    let git = [format!("--listen={}", GIT.address), format!("--base-path={}", folder("git"))];
    let mut git = server(
        "internet-git",
        &[
            "git",
            "daemon",
            "--export-all",
            "--enable=receive-pack",
            "--reuseaddr",
            &git[0],
            &git[1],
        ],
    );
    git.env.push(("HOME", folder("home")));
    Ok([
        server("internet-dns", &[&coredns, "-conf", &folder("Corefile")]),
        server(
            "internet-canary",
            &["busybox", "httpd", "-f", "-p", &canary, "-h", &folder("canary")],
        ),
        git,
        ssh::server(place),
        server(
            "internet-index",
            &[
                "python3",
                "-u",
                "-c",
                include_str!("index.py"),
                INDEX.address,
                &folder("index"),
                &folder("password"),
            ],
        ),
    ])
}

/// A program in its network.
pub(super) fn server(name: &'static str, words: &[&str]) -> Process {
    let network = format!("--net=/run/netns/{NETWORK}");
    let args = [network.as_str()].iter().chain(words).map(|word| (*word).to_owned()).collect();
    Process { name, program: "nsenter".into(), args, env: Vec::new() }
}

/// Names that a test adds to the file are known within the second. Nobody else is asked: what is not
/// there is unknown. That answer has a port of its own, since it would come before the file.
fn corefile(place: &Place) -> String {
    format!(
        ".:53 {{
    bind {DNS}
    errors
    hosts {} {{
        reload 1s
        fallthrough
    }}
    forward . {DNS}:5353
}}
.:5353 {{
    bind {DNS}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
",
        place.text(&format!("{FOLDER}/hosts"))
    )
}
