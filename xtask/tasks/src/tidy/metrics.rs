//! Every metric that is counted is explained to whoever reads it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Complaint;
use super::files::Source;

/// Where they are explained.
const DOCUMENT: &str = "docs/OPERATIONS.md";

/// What begins the name of each that is ours.
const OURS: &str = "famulus_";

const MACROS: [&str; 3] = ["counter!(", "gauge!(", "histogram!("];

pub(super) fn check(sources: &[Source], root: &Path) -> Result<Vec<Complaint>> {
    let document = fs::read_to_string(root.join(DOCUMENT))
        .with_context(|| format!("cannot read {DOCUMENT}"))?;
    let names: BTreeSet<&str> = sources.iter().flat_map(|source| names(&source.text)).collect();
    Ok(unexplained(&names, &document))
}

fn unexplained(names: &BTreeSet<&str>, document: &str) -> Vec<Complaint> {
    if names.is_empty() {
        return vec!["no metric is counted; say in tidy how that is done now".to_owned()];
    }
    let missing = names.iter().filter(|name| !document.contains(&format!("| `{name}` |")));
    let complaint = |name: &&str| {
        format!("{DOCUMENT}: its table of metrics has no line `{name}`; say what it means")
    };
    missing.map(complaint).collect()
}

/// What is counted under a name that is written where it is counted.
fn names(file: &str) -> Vec<&str> {
    let calls = MACROS.iter().flat_map(|name| file.split(name).skip(1));
    calls
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .filter(|name| name.starts_with(OURS))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_that_nobody_explains_is_a_complaint() {
        let file = "metrics::counter!(\n    \"famulus_a_total\", \"kind\" => kind).increment(1);\n\
                    gauge!(\"famulus_b\").set(1); histogram!(\"others_seconds\"); counter!(name);";
        let found: BTreeSet<&str> = names(file).into_iter().collect();
        assert_eq!(found, BTreeSet::from(["famulus_a_total", "famulus_b"]));
        let document = "| `famulus_a_total` | counter | `kind` | what it means |\n`famulus_b`";
        let complaints = unexplained(&found, document);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains("no line `famulus_b`"));
        assert_eq!(unexplained(&BTreeSet::new(), document).len(), 1);
    }
}
