//! Settings of the whole machine that a node's programs want to change.
//!
//! They are not a cluster's to change: the machine is shared, and nobody would set them back. Inside
//! the cluster each is covered by a file that holds what the programs want, and that takes what they
//! write.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::place::Place;

/// A setting below `/proc/sys`, and the value that the program wants to find.
const WANTED: [(&str, &str); 8] = [
    // The kubelet.
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
    // The policy enforcer.
    ("kernel/unprivileged_bpf_disabled", "1"),
    ("kernel/timer_migration", "0"),
];

/// Files of the cluster, each with the path of the machine's setting that it covers.
pub(super) fn shadows(place: &Place) -> Result<Vec<(String, String)>> {
    let mut shadows = Vec::new();
    for (name, value) in WANTED {
        let machine = format!("/proc/sys/{name}");
        if Path::new(&machine).exists() {
            let own = format!("sysctls/{}", name.replace('/', "."));
            place.write(&own, format!("{value}\n"))?;
            shadows.push((place.text(&own), machine));
        }
    }
    Ok(shadows)
}

/// The machine's own values, to see that they stay.
pub(super) fn of_the_machine() -> Vec<String> {
    let value = |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).ok();
    let told = |name: &str| Some(format!("{name} = {}", value(name)?.trim()));
    WANTED.iter().filter_map(|(name, _)| told(name)).collect()
}
