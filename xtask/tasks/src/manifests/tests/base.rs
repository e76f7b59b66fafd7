//! What is generated is committed.

use super::super::{Generated, generated};
use super::helm;

#[test]
fn the_committed_manifests_are_those_of_the_chart() {
    let stale: Vec<String> = generated(&helm())
        .unwrap()
        .iter()
        .filter(|file| file.is_stale())
        .map(Generated::name)
        .collect();
    assert_eq!(stale, Vec::<String>::new(), "run `cargo xtask manifests`");
}
