//! What the documents name is there: files, and what is said to stand in them.
//!
//! A path of the workspace between backticks must be a file or a folder. Names right before it, as
//! in `a_test`, `another` in `app/core/src/ids.rs`, must be defined in that file. What is as long as the name of a
//! test is one, wherever it stands, but for metrics.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Complaint;
use super::files::Source;

/// What stands before a name that is defined.
const DEFINES: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "static", "mod"];

/// Where that which is built stands, or not yet.
const BUILT: &str = "target/";

/// A test says in so many words what holds.
const WORDS_OF_A_TEST: usize = 5;

/// What metrics begin with, which have as many.
const METRIC: &str = "famulus_";

/// Complaints about every document of the workspace.
pub(super) fn check(sources: &[Source], root: &Path) -> Result<Vec<Complaint>> {
    let functions: BTreeSet<&str> =
        sources.iter().flat_map(|source| functions_of(&source.text)).collect();
    let mut documents = vec![root.join("README.md")];
    for entry in fs::read_dir(root.join("docs"))? {
        documents.push(entry?.path());
    }
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    documents.sort();
    let mut folders = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let folder = format!("{}/", entry.file_name().to_string_lossy());
        if entry.path().is_dir() && folder != BUILT {
            folders.push(folder);
        }
    }
    let mut complaints = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document)
            .with_context(|| format!("cannot read {}", document.display()))?;
        let name = document.strip_prefix(root)?.display().to_string();
        complaints.extend(complaints_of(&name, &text, &folders, root)?);
        complaints.extend(missing_tests(&name, &text, &functions));
    }
    Ok(complaints)
}

fn complaints_of(
    document: &str,
    text: &str,
    folders: &[String],
    root: &Path,
) -> Result<Vec<Complaint>> {
    let mut complaints = Vec::new();
    for (number, paragraph) in paragraphs(text) {
        let place = format!("{document}:{number}");
        let pieces: Vec<&str> = paragraph.split('`').collect();
        let mut names: Vec<&str> = Vec::new();
        for pair in pieces.chunks_exact(2) {
            let (before, code) = (pair[0].trim(), pair[1]);
            if is_path(code) && folders.iter().any(|folder| code.starts_with(folder.as_str())) {
                let path = root.join(code);
                if !path.exists() {
                    complaints.push(format!("{place} names `{code}`, which is not there"));
                } else if before == "in" && path.extension().is_some_and(|of| of == "rs") {
                    let file = fs::read_to_string(&path)
                        .with_context(|| format!("cannot read {}", path.display()))?;
                    let absent = names.iter().filter(|name| !defines(&file, name));
                    complaints.extend(
                        absent.map(|name| format!("{place} looks for `{name}` in `{code}`")),
                    );
                }
                names.clear();
            } else {
                if before != "," && before != "and" {
                    names.clear();
                }
                if code.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c)) {
                    names.push(code.rsplit("::").next().unwrap_or(code));
                }
            }
        }
    }
    Ok(complaints)
}

/// Names of tests that no source has.
fn missing_tests(document: &str, text: &str, functions: &BTreeSet<&str>) -> Vec<Complaint> {
    let is_test = |code: &&str| {
        code.split('_').count() >= WORDS_OF_A_TEST
            && !code.starts_with(METRIC)
            && code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let mut complaints = Vec::new();
    for (number, paragraph) in paragraphs(text) {
        let codes = paragraph.split('`').skip(1).step_by(2);
        let missing = codes.filter(is_test).filter(|code| !functions.contains(code));
        complaints.extend(
            missing.map(|code| format!("{document}:{number} names `{code}`, which no source has")),
        );
    }
    complaints
}

fn functions_of(file: &str) -> impl Iterator<Item = &str> {
    let words = || {
        let words = file.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.filter(|word| !word.is_empty())
    };
    words().zip(words().skip(1)).filter(|(before, _)| *before == "fn").map(|(_, name)| name)
}

/// What is not shown as code: lines that belong together as one, with the number of the first. Each
/// row of a table stands alone.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut shown, mut goes_on) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let fence = line.starts_with("```");
        shown ^= fence;
        let alone = line.starts_with('|');
        if shown || fence || line.is_empty() {
            goes_on = false;
            continue;
        }
        match found.last_mut().filter(|_| goes_on && !alone) {
            Some((_, paragraph)) => *paragraph = format!("{paragraph} {line}"),
            None => found.push((number + 1, line.to_owned())),
        }
        goes_on = !alone;
    }
    found
}

/// Whether it is a path, and no component of it, such as `NAME`, stands for others.
fn is_path(code: &str) -> bool {
    let stands_for =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    code.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !code.split('/').any(stands_for)
}

fn defines(file: &str, name: &str) -> bool {
    let words: Vec<&str> = file.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    words.windows(2).any(|pair| DEFINES.contains(&pair[0]) && pair[1] == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_a_complaint() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("app/folder")).unwrap();
        fs::write(root.path().join("app/a.rs"), "async fn one() {}\nstruct Two;").unwrap();
        let check = |text: &str, expected: &[&str]| {
            let found = complaints_of("d", text, &["app/".to_owned()], root.path()).unwrap();
            assert_eq!(found, expected, "{text}");
        };
        check("| `one`, `Two` in `app/a.rs`; `x` of `app/folder` |", &[]);
        check("`run` is not meant: `one` in `app/a.rs`", &[]);
        check("`one` and `X::three` in `app/a.rs`", &["d:1 looks for `three` in `app/a.rs`"]);
        check("so:\n`one`,\n`three` in\n`app/a.rs`", &["d:1 looks for `three` in `app/a.rs`"]);
        check("\nsee `app/b.rs`", &["d:2 names `app/b.rs`, which is not there"]);
        check("```\n`app/b.rs`\n```\n`b.rs`, `target/b.rs`, `app/<name>`, `app/NAME/x`", &[]);
    }

    #[test]
    fn a_test_that_is_nowhere_is_a_complaint() {
        let functions: BTreeSet<&str> =
            functions_of("async fn it_holds_on_bad_days() {}\nfn x(){}").collect();
        let found = missing_tests(
            "d",
            "`it_holds_on_bad_days` and, in `cargo xtask soak`, `it_holds_on_good_days` with\n\
             `a_short_name`, `famulus_of_which_there_are_total`",
            &functions,
        );
        assert_eq!(found, ["d:1 names `it_holds_on_good_days`, which no source has"]);
    }
}
