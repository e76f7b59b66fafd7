//! Size and name of source files.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Complaint;

/// A file of this many lines is worth a thought.
const WARN_LINES: usize = 400;

/// A file of more lines is two files.
const MOST_LINES: usize = 800;

/// Names that say nothing about what is inside.
const BANNED_NAMES: [&str; 7] = ["util", "utils", "common", "helpers", "misc", "manager", "v2"];

/// Files that are too long and may only shrink: path and number of lines.
const TOO_LONG: [(&str, usize); 0] = [];

/// Folders without source of ours.
const SKIPPED: [&str; 2] = ["target", "node_modules"];

#[derive(Clone)]
pub(super) struct Source {
    /// Relative to the workspace.
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// Every Rust file of the workspace.
pub(super) fn sources(root: &Path) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    collect(root, root, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                collect(root, &path, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let path = path.strip_prefix(root)?.to_string_lossy().into_owned();
            found.push(Source { path, text });
        }
    }
    Ok(())
}

/// Files that are close to being too long.
pub(super) fn growing(sources: &[Source]) -> Vec<String> {
    let growing = |source: &&Source| (WARN_LINES + 1..=MOST_LINES).contains(&source.lines());
    let note = |source: &Source| {
        format!("{} has {} lines; {MOST_LINES} are the limit", source.path, source.lines())
    };
    sources.iter().filter(growing).map(note).collect()
}

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in sources {
        let (path, lines) = (&source.path, source.lines());
        let allowed = TOO_LONG.iter().find(|(name, _)| name == path);
        let most = allowed.map_or(MOST_LINES, |(_, most)| *most);
        if lines > most {
            complaints.push(format!("{path}: {lines} lines, more than {most}; split it by idea"));
        }
        let words = path.trim_end_matches(".rs").split('/');
        for word in words.filter(|word| BANNED_NAMES.contains(word)) {
            complaints.push(format!("{path}: {word:?} names nothing; name what is inside"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_empty_names_are_complaints() {
        let source = |path: &str, lines| Source { path: path.to_owned(), text: "\n".repeat(lines) };
        let sources = [
            source("app/core/src/turn.rs", 400),
            source("app/core/src/reply.rs", 401),
            source("app/core/src/inbound.rs", 801),
            source("app/core/src/util/mod.rs", 1),
            source("app/core/src/helpers.rs", 1),
        ];
        assert_eq!(growing(&sources), ["app/core/src/reply.rs has 401 lines; 800 are the limit"]);
        let complaints = check(&sources);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[0].starts_with("app/core/src/inbound.rs: 801 lines"));
        assert!(complaints[1].contains("\"util\" names nothing"));
        assert!(complaints[2].contains("\"helpers\" names nothing"));
    }
}
