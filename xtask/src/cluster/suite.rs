//! `cargo xtask cluster suite`: the tests of a whole installation, on a real cluster.
//!
//! ```text
//! images of this tree ─► cluster ─► helm install ─► tests/cluster ─► cluster is removed
//! ```
//!
//! With KUBECONFIG set they run against that cluster and the release that is installed there; what
//! needs the node itself is then left out, and named.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::images;
use crate::shell::{Shell, cargo, output_of};
use crate::workspace::root;

use super::place::Place;
use super::variant::Variant;
use super::{down, enter, internet, kubectl, load, network, storage, up};

/// A cluster, the release on it, and the tests that want it so.
struct Home {
    /// Behind the name of the cluster.
    suffix: &'static str,
    /// The module of tests that are for it alone; without one it has all others.
    module: Option<&'static str>,
    variant: Variant,
    /// Further words of `helm install`.
    values: &'static [&'static str],
    /// Whether the chart's own tests are run too.
    chart_tests: bool,
}

/// The tests of a cluster where nothing enforces policies and nothing makes volumes.
const OPEN: &str = "open::";

/// The tests that put something beside the node.
const NODE: &str = "node::";

const HOMES: [Home; 2] = [
    Home {
        suffix: "",
        module: None,
        variant: Variant {
            network: network::Network::Cilium,
            storage: storage::Storage::Standard,
            internet: internet::Internet::Beside,
        },
        values: &[],
        chart_tests: true,
    },
    Home {
        suffix: "-open",
        module: Some(OPEN),
        variant: Variant {
            network: network::Network::None,
            storage: storage::Storage::None,
            internet: internet::Internet::None,
        },
        values: &["--set", "postgres.persistence.enabled=false"],
        chart_tests: false,
    },
];

/// The images of a release, but for the runner that nobody asks for by default.
const IMAGES: [&str; 5] = ["app", "operator", "runner-slim", "postgres", "resolver"];

/// The release and its namespace.
const RELEASE: &str = "famulus";

#[derive(clap::Args)]
pub(super) struct Wanted {
    /// Leave the cluster as it is when the tests have run, for a look at it
    #[arg(long)]
    keep: bool,
    /// Only tests whose name contains this
    filter: Option<String>,
}

impl Home {
    /// Whether a test whose name contains this may be one of its own.
    fn has(&self, filter: &str) -> bool {
        match self.module {
            Some(module) => filter.starts_with(module),
            None => !filter.starts_with(OPEN),
        }
    }

    /// Words for the program of the tests.
    fn words<'w>(&self, filter: Option<&'w str>) -> Vec<&'w str> {
        match (self.module, filter) {
            (_, Some(filter)) => {
                vec![filter, "--skip", if self.module.is_some() { NODE } else { OPEN }]
            }
            (Some(module), None) => vec![module],
            (None, None) => vec!["--skip", OPEN],
        }
    }
}

/// Runs all of them, as a part of `cargo xtask test`, with images that were built before.
pub(crate) async fn run_all(shell: &mut Shell) -> Result<()> {
    let archives = IMAGES.map(images::archive_of);
    with_images(shell, "suite", &Wanted { keep: false, filter: None }, &archives).await
}

pub(super) async fn run(shell: &mut Shell, name: &str, wanted: &Wanted) -> Result<()> {
    if std::env::var_os("KUBECONFIG").is_some() {
        println!("KUBECONFIG is set: tests that need a node of ours are left out ({NODE}, {OPEN})");
        let words = ["--skip", NODE, "--skip", OPEN].into_iter();
        return shell.run(tests(words.chain(wanted.filter.as_deref()))).await;
    }
    images::for_tests(shell, &IMAGES).await?;
    with_images(shell, name, wanted, &IMAGES.map(images::archive_of)).await
}

async fn with_images(
    shell: &mut Shell,
    name: &str,
    wanted: &Wanted,
    archives: &[PathBuf],
) -> Result<()> {
    let filter = wanted.filter.as_deref();
    for home in HOMES.iter().filter(|home| filter.is_none_or(|filter| home.has(filter))) {
        let place = Place::new(&format!("{name}{}", home.suffix))?;
        up::run(shell, &place, home.variant).await?;
        let outcome = on_the_node(shell, &place, home, filter, archives).await;
        if outcome.is_err() {
            say_what_is_there(&place);
        }
        if !wanted.keep {
            down::run(shell, &place).await?;
        }
        outcome?;
    }
    Ok(())
}

async fn on_the_node(
    shell: &mut Shell,
    place: &Place,
    home: &Home,
    filter: Option<&str>,
    archives: &[PathBuf],
) -> Result<()> {
    load::run(shell, place, archives).await?;
    let helm = super::helm(shell).await?;
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut install = words("upgrade --install --create-namespace --wait --timeout 5m -n");
    install.extend([RELEASE.to_owned(), RELEASE.to_owned()]);
    let path = |path: &str| root().join(path).display().to_string();
    install.extend([path("charts/famulus"), "-f".to_owned(), path("tests/cluster/values.yaml")]);
    install.extend(home.values.iter().map(|word| (*word).to_owned()));
    shell.run(enter::inside(place, &helm, &install)?).await?;

    // The port of the app is forwarded to inside of the cluster's network.
    let tests = tests(home.words(filter).into_iter());
    let args: Vec<String> =
        tests.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let mut inside = enter::inside(place, tests.get_program().as_ref(), &args)?;
    inside.current_dir(root());
    inside.env("FAMULUS_TEST_KUBECTL", place.at("kubectl"));
    inside.env("FAMULUS_TEST_NODE", &place.folder);
    shell.run(inside).await?;
    if home.chart_tests && filter.is_none() {
        let words = words("test --timeout 5m -n");
        let words = words.into_iter().chain([RELEASE, RELEASE].map(str::to_owned));
        shell.run(enter::inside(place, &helm, &words.collect::<Vec<_>>())?).await?;
    }
    Ok(())
}

fn tests<'w>(words: impl Iterator<Item = &'w str>) -> Command {
    let mut command = cargo(["test", "-p", "famulus-cluster-tests", "--test", "cluster", "--"]);
    command.args(["--test-threads", "4"]).args(words);
    command
}

/// What one would look at first.
fn say_what_is_there(place: &Place) {
    for what in ["pods", "plugins", "events"] {
        let mut command = kubectl::Kubectl::of(place).command();
        command.args(["get", what, "-A", "-o", "wide"]);
        if let Ok(said) = output_of(&mut command) {
            eprintln!("{}", String::from_utf8_lossy(&said));
        }
    }
    for part in ["deployment/famulus", "deployment/famulus-operator"] {
        let mut command = kubectl::Kubectl::of(place).command();
        command.args(["-n", RELEASE, "logs", "--all-containers", "--tail=100", part]);
        if let Ok(said) = output_of(&mut command) {
            eprintln!("{part}:\n{}", String::from_utf8_lossy(&said));
        }
    }
}
