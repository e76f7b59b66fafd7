//! Names in a bundle: which may be, and where a link may lead.

use std::collections::BTreeMap;

use super::ArchiveError;

/// The longest path, and the longest part of it, in bytes: what file systems take.
const LONGEST: usize = 1024;
const LONGEST_PART: usize = 255;

/// The names of a bundle, each once, none beneath a file.
#[derive(Debug, Default)]
pub struct Names {
    /// Whether it is a folder that some name implies.
    known: BTreeMap<String, bool>,
}

impl Names {
    /// Takes a path that is a file's or a link's.
    pub fn take(&mut self, path: &str) -> Result<(), ArchiveError> {
        let refuse = |what| Err(ArchiveError::Path { path: path.escape_debug().to_string(), what });
        if path.is_empty() || path.len() > LONGEST {
            return refuse("is empty or too long; shorten it");
        }
        for part in path.split('/') {
            if part.is_empty() || part == "." || part == ".." {
                return refuse("is absolute, or has an empty part, `.` or `..`; write it plainly");
            }
            if part.len() > LONGEST_PART || part.chars().any(char::is_control) {
                return refuse(
                    "has a part that is too long or holds control characters; rename it",
                );
            }
            if part.eq_ignore_ascii_case(".git") {
                return refuse("belongs to git; remove it");
            }
        }
        for (at, _) in path.match_indices('/') {
            if *self.known.entry(path[..at].to_owned()).or_insert(true) {
                continue;
            }
            return refuse("lies beneath a file; rename one of them");
        }
        if self.known.insert(path.to_owned(), false).is_some() {
            return refuse("is there twice; rename one of them");
        }
        Ok(())
    }
}

/// Whether a link at `path` stays in the bundle, also by way of other links.
///
/// Only leading `..` are allowed. They count from a folder of the bundle, which is never a link, so
/// that what they come to is what it looks like; what follows leads downwards or through another
/// link of which the same holds.
pub fn link_stays(path: &str, target: &str) -> bool {
    if target.is_empty() || target.len() > LONGEST || target.chars().any(char::is_control) {
        return false;
    }
    let depth = path.matches('/').count();
    let mut up = 0;
    let mut down = false;
    for part in target.split('/') {
        match part {
            "" => return false,
            "." => {}
            ".." if down => return false,
            ".." => up += 1,
            part if part.eq_ignore_ascii_case(".git") => return false,
            _ => down = true,
        }
    }
    up <= depth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_names() {
        let check = |path: &str, fits: bool| {
            assert_eq!(Names::default().take(path).is_ok(), fits, "{path:?}");
        };
        for path in ["a", "a/b.py", "ä ö", "-rf", "..a", "a..", ".github/x", "a/.gitignore"] {
            check(path, true);
        }
        for path in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "a/..",
            "a/../b",
            "./a",
            "a/.",
            "a\nb",
            "a\0",
            "\u{1b}[31m",
            ".git",
            ".git/config",
            "a/.GIT/hooks/x",
        ] {
            check(path, false);
        }
        check(&"a".repeat(256), false);
        check(&"a/".repeat(600), false);
    }

    #[test]
    fn a_name_is_there_once_and_not_beneath_a_file() {
        let mut names = Names::default();
        for path in ["a", "b/c", "b/d"] {
            names.take(path).unwrap();
        }
        for path in ["a", "a/x", "b", "b/c", "b/c/d"] {
            assert!(names.take(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_link_stays_inside() {
        let check = |path: &str, target: &str, stays: bool| {
            assert_eq!(link_stays(path, target), stays, "{path} -> {target}");
        };
        check("a", "b", true);
        check("a", "./b", true);
        check("a/b", "../c", true);
        check("a/b", "..", true);
        check("a", "b/c", true);
        check("a", "..", false);
        check("a/b", "../../c", false);
        check("a", "/etc/passwd", false);
        check("a", "", false);
        check("a", "b//c", false);
        // By way of another link this would lead elsewhere than it looks.
        check("a/b/c", "d/../..", false);
        check("a", ".git/config", false);
        check("a", "b\n", false);
    }
}
