//! What a release is built with: no feature that is there for tests alone.
//!
//! Images for tests are made of the programs that tests have, so nobody meets a program as it is released
//! until `cargo xtask soak` looks at one. Which features it gets is asked of `cargo tree` each day.

use anyhow::{Context, Result};
use xtask_shell::{cargo, output_of};

use super::Complaint;

/// The packages of the programs that users get.
const RELEASED: [&str; 3] = ["famulus-operator", "famulus-runner", "famulus-server"];

/// Points at which a program dies, switches that take a safety out, and scripted services.
const FOR_TESTS: [&str; 4] = ["crash-points", "fake", "harness", "sabotage"];

/// Lines such as `famulus-core v0.1.0 (/here)|crash-points`: the packages of a release, each with the features
/// that it is built with.
pub(super) fn built() -> Result<String> {
    let mut tree = cargo(["tree", "--edges", "normal,build", "--prefix", "none"]);
    tree.args(["--format", "{p}|{f}"]);
    tree.args(RELEASED.iter().flat_map(|package| ["--package", package]));
    String::from_utf8(output_of(&mut tree)?).context("cargo tree is not text")
}

pub(super) fn check(tree: &str) -> Vec<Complaint> {
    let mut complaints: Vec<Complaint> = tree.lines().filter_map(complaint).collect();
    complaints.extend(RELEASED.into_iter().filter(|package| !holds(tree, package)).map(
        |package| format!("cargo tree does not know {package}, which is released: see `RELEASED`"),
    ));
    complaints
}

fn complaint(line: &str) -> Option<Complaint> {
    let (package, features) = line.split_once('|')?;
    let name = package.split(' ').next().filter(|name| name.starts_with("famulus-"))?;
    // A line that came before ends with a mark.
    let mut features = features.trim_end_matches("(*)").split(',').map(str::trim);
    let feature = features.find(|feature| FOR_TESTS.contains(feature))?;
    Some(format!(
        "{name} is released with the feature `{feature}`, which is for tests: ask for it under \
         [dev-dependencies] alone"
    ))
}

fn holds(tree: &str, package: &str) -> bool {
    tree.lines().any(|line| line.split(' ').next() == Some(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_for_tests_in_a_release_is_a_complaint() {
        let whole = "famulus-operator v0.1.0 (/a)|\nfamulus-runner v0.1.0 (/a)|\nserde v1.0.0|fake\n\
             famulus-server v0.1.0 (/a)|as-built, other (*)";
        assert_eq!(check(whole), Vec::<Complaint>::new());

        let table = [
            ("famulus-core v0.1.0 (/a)|crash-points", "famulus-core is released with"),
            ("famulus-store v0.1.0 (/a)|a,sabotage (*)", "famulus-store is released with"),
            ("famulus-models v0.1.0 (/a)|fake,other", "famulus-models is released with"),
        ];
        for (line, complaint) in table {
            let found = check(&format!("{whole}\n{line}"));
            assert!(found.len() == 1 && found[0].starts_with(complaint), "{line}: {found:?}");
        }
        let found = check("famulus-operator v0.1.0|\nfamulus-runner v0.1.0|");
        assert!(found.len() == 1 && found[0].contains("does not know famulus-server"), "{found:?}");
    }
}
