//! The long-running programs of a node: starting them inside, and seeing whether they run.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use xtask_shell::output_of;

use super::namespace::{Inside, Namespaces, tag};
use super::place::Place;
use super::wait;

/// The names of all that a node may run, in the order of their start.
pub(super) const ALL: [&str; 14] = [
    "etcd",
    "kube-apiserver",
    "containerd",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "cilium-agent",
    "storage",
    "internet-dns",
    "internet-canary",
    "internet-git",
    "internet-ssh",
    "internet-index",
];

/// Without these everybody waits, so they come before whatever else wants a processor, as they do on a
/// node whose Pods say what they need. An API server that waits for ten seconds costs whoever leads its
/// lease.
const BEFORE_OTHERS: [&str; 4] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// For programs of a cluster and those that call it, nearly all of them of Go: the collector of garbage begins
/// when the heap is six times what lives, not twice. Of the processor time of an API server it took three tenths, of
/// a kubelet's nearly half; the memory is there.
pub(super) const SELDOM: (&str, &str) = ("GOGC", "500");

/// How long one part of the start may take on a busy machine of two cores.
const LIMIT: Duration = Duration::from_mins(4);

/// Lines of a log that are worth showing when its program ended.
const LAST_LINES: usize = 5;

/// A program and how it is started.
pub(super) struct Process {
    /// One of [`ALL`].
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(&'static str, String)>,
}

/// Starts the program in a session of its own. What it says goes to its log, behind what is there.
pub(super) fn start(namespaces: &Namespaces, place: &Place, process: &Process) -> Result<()> {
    let mut words = vec!["env".to_owned()];
    let env = process.env.iter().map(|(name, value)| (*name, value.as_str()));
    words.extend(env.chain([SELDOM]).map(|(name, value)| format!("{name}={value}")));
    words.push(process.program.to_string_lossy().into_owned());
    words.extend(process.args.iter().cloned());
    place.write(&format!("commands/{}", process.name), words.join("\0"))?;
    start_again(namespaces, place, process.name)
}

/// Starts a program as it was started before.
pub(super) fn start_again(namespaces: &Namespaces, place: &Place, name: &str) -> Result<()> {
    // The kernel may weigh sessions against each other, and processes only within one.
    const SCRIPT: &str = r#"log=$1; id=$2; nice=$3; shift 3
setsid sh -c '
  [ -w /proc/self/autogroup ] && echo "$0" >/proc/self/autogroup
  exec nice -n "$0" "$@"' "$nice" "$@" </dev/null >>"$log" 2>&1 &
echo $! >"$id""#;
    let words = fs::read_to_string(place.at("commands").join(name))
        .with_context(|| format!("{name} was never started"))?;
    let log = place.make_folder("log")?.join(format!("{name}.log"));
    let id = place.make_folder("ids")?.join(name);
    let mut command = namespaces.enter("sh");
    let nice = if BEFORE_OTHERS.contains(&name) { "-10" } else { "0" };
    command.args(["-c", SCRIPT, "sh"]).arg(log).arg(id).arg(nice).args(words.split('\0'));
    tag(&mut command, place);
    output_of(&mut command).with_context(|| format!("cannot start {name}"))?;
    Ok(())
}

/// The process of a program, if it runs.
pub(super) fn find<'a>(place: &Place, inside: &'a [Inside], name: &str) -> Option<&'a Inside> {
    let inner: u32 = fs::read_to_string(place.at("ids").join(name)).ok()?.trim().parse().ok()?;
    inside.iter().find(|one| one.inner == inner)
}

/// The names of those that were started.
pub(super) fn started(place: &Place) -> Vec<&'static str> {
    ALL.into_iter().filter(|name| place.at("ids").join(name).exists()).collect()
}

/// Fails with the last words of a program that was started and does not run.
pub(super) fn all_run(namespaces: &Namespaces, place: &Place) -> Result<()> {
    let inside = namespaces.processes()?;
    for name in started(place) {
        if find(place, &inside, name).is_none() {
            bail!("{name} ended; its last words:\n{}", last_words(place, name));
        }
    }
    Ok(())
}

/// Waits until it is so, but not for something that has ended.
pub(super) async fn until(
    namespaces: &Namespaces,
    place: &Place,
    what: &str,
    mut is_so: impl FnMut() -> bool,
) -> Result<()> {
    wait::until(what, LIMIT, || {
        all_run(namespaces, place)?;
        Ok(is_so().then_some(()))
    })
    .await
}

/// The end of a program's log, indented.
pub(super) fn last_words(place: &Place, name: &str) -> String {
    let log = place.at("log").join(format!("{name}.log"));
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
