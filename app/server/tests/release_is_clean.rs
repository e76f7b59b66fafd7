//! What the crash harness needs is not in what is shipped: neither the points at which it dies nor
//! the switches that take a safety out.
//!
//! Built without features, as a release is, `famulus` must not know them. Built with the feature
//! `harness` they must be found, which shows that the search finds what is there. `cargo xtask soak` looks at
//! the program that is released; which features a release has is looked at each day, by `cargo xtask tidy`.

use aho_corasick::AhoCorasick;
use anyhow::{Context, Result, ensure};
use std::{collections::BTreeSet, fs};

/// Words by which the harness is told what to do; they stand in a binary that reads them.
const SWITCHES: [&str; 2] = ["FAMULUS_CRASH", "FAMULUS_SABOTAGE"];

/// What every such program says, so that another file is not taken for one.
const SERVES: &str = "Famulus listens on";

#[test]
fn the_shipped_program_knows_no_crash_points() -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "tests read their one setting themselves")]
    let named = std::env::var("FAMULUS_RELEASE_BINARY").ok();
    // With the harness, what was built beside this test is not what is shipped.
    let own = (!cfg!(feature = "harness")).then(|| env!("CARGO_BIN_EXE_famulus").to_owned());
    let program = named.or(own).context(
        "this test was built with the feature `harness`: set FAMULUS_RELEASE_BINARY to a famulus that \
         was built without it",
    )?;
    let known: Vec<&str> = SWITCHES.iter().chain(&[SERVES]).copied().collect();
    let found = found_in(&program, &known)?;
    ensure!(found == [SERVES], "{program} knows {found:?}");
    Ok(())
}

#[cfg(feature = "harness")]
#[test]
fn the_harness_knows_them() -> Result<()> {
    let words: Vec<&str> = SWITCHES.iter().chain(famulus_core::crash::POINTS).copied().collect();
    let found = found_in(env!("CARGO_BIN_EXE_famulus-harness"), &words)?;
    ensure!(found == words, "famulus-harness knows only {found:?}");
    Ok(())
}

/// Those of the words that stand anywhere in a file.
fn found_in<'a>(file: &str, words: &[&'a str]) -> Result<Vec<&'a str>> {
    let bytes = fs::read(file).with_context(|| format!("{file} cannot be read"))?;
    let found: BTreeSet<usize> = AhoCorasick::new(words)?
        .find_overlapping_iter(&bytes)
        .map(|found| found.pattern().as_usize())
        .collect();
    Ok(found.into_iter().map(|word| words[word]).collect())
}
