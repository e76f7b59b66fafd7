//! `cargo xtask cluster status`: what runs, in plain words.

use anyhow::Result;

use super::kubectl::Kubectl;
use super::namespace::Namespaces;
use super::place::{NODE, Place};
use super::{down, packages, processes, variant};

pub(super) fn run(place: &Place) -> Result<()> {
    packages::root()?;
    let Some(namespaces) = Namespaces::find(place)? else {
        let name = &place.name;
        if down::is_there(place)? {
            println!("cluster {name} does not run, but something of it is left; `down` removes it");
        } else {
            println!("there is no cluster {name}");
        }
        return Ok(());
    };
    match variant::kept(place) {
        Some(variant) => println!("cluster {} is up: {variant}", place.name),
        None => println!("cluster {} is on its way up, or was stopped on it", place.name),
    }
    let inside = namespaces.processes()?;
    let started = processes::started(place);
    for name in &started {
        match processes::find(place, &inside, name) {
            Some(process) => println!("  {name} runs (process {})", process.pid),
            None => println!(
                "  {name} does not run; its last words:\n{}",
                processes::last_words(place, name)
            ),
        }
    }
    // The first process is nobody's.
    let others = inside.len().saturating_sub(started.len() + 1);
    println!("  {others} further processes: what holds Pods, and what runs in them");
    println!("  {}", node(&Kubectl::of(place)));
    Ok(())
}

/// The node and its Pods, as the API server knows them.
fn node(kubectl: &Kubectl) -> String {
    let line = |args: &[&str]| kubectl.call(args).map(|text| text.trim().to_owned());
    let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
    let ready = line(&["get", "node", NODE, "-o", ready]);
    let pods = line(&["get", "pods", "--all-namespaces", "--no-headers", "-o", "name"]);
    match (ready, pods) {
        (Ok(ready), Ok(pods)) => {
            let ready = if ready == "True" { "Ready" } else { "not Ready" };
            format!("the node is {ready} and has {} Pods", pods.lines().count())
        }
        (Err(error), _) | (_, Err(error)) => format!("the API server does not answer: {error:#}"),
    }
}
