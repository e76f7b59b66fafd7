//! The files of a plugin that is written here: listed, read and changed. Pure.
//!
//! Refuses to know where they are kept, and what makes a plugin of them: the step that bundles them says that.
//!
//! What holds: changes that come together are all made, in their order, or none is; and who says which content they
//! read replaces no other.

use super::{ManageError, PluginFile, PluginSource, rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Files at most; a plugin that is larger is kept in a repository.
pub const MOST_FILES: usize = 200;
/// Bytes of all of them at most: a request with them stays below one MiB.
pub const MOST_BYTES: usize = 700 * 1024;
/// The longest path, and the longest part of it, in bytes: as in a bundle.
const LONGEST: usize = 1024;
const LONGEST_PART: usize = 255;
/// Letters of a path that are shown.
const SHOWN: usize = 80;
/// Files that are named where another was asked for.
const NAMED: usize = 20;

/// One change of the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// Makes a file, or replaces it.
    Write {
        path: String,
        content: String,
        /// The `sha256` of the content that was read. If the file has another one by now, nothing is written.
        #[serde(default)]
        before: Option<String>,
    },
    Delete {
        path: String,
    },
    Move {
        path: String,
        /// Where no file is yet.
        to: String,
    },
}

/// A file, without what stands in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    pub path: String,
    pub bytes: usize,
    /// Of its content, in 64 hexadecimal digits.
    pub sha256: String,
}

/// The files of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileList {
    /// By path.
    pub files: Vec<FileEntry>,
}

/// A file as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileContent {
    pub path: String,
    pub content: String,
    /// Of the content, in 64 hexadecimal digits: `before` of what is written next.
    pub sha256: String,
}

/// No file was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("`{path}` cannot be the path of a file: it {why}")]
    Path { path: String, why: &'static str },
    #[error("there is no file `{path}`; the files are: {known}")]
    NoFile { path: String, known: String },
    #[error(
        "`{path}` is not what you read: it was changed or deleted since; read it again, and write your change \
             into what is there now"
    )]
    Changed { path: String },
    #[error("there is a file `{path}` already; delete that one first, or choose another path")]
    Exists { path: String },
    #[error("`{path}` is a folder, of `{file}`; choose another path")]
    Folder { path: String, file: String },
    #[error("`{path}` would lie beneath `{file}`, which is a file; choose another path")]
    BeneathFile { path: String, file: String },
    #[error(
        "there would be more than {MOST_FILES} files, which is the most of a plugin that is written here; delete \
             what it does not need, or keep it in a git repository and install its address"
    )]
    TooMany,
    #[error(
        "the files would hold {bytes} bytes, and {MOST_BYTES} are the most of a plugin that is written here; \
             shorten them, or keep it in a git repository and install its address"
    )]
    TooLarge { bytes: usize },
}

/// The files of a plugin that is written here.
///
/// # Errors
/// It is from elsewhere.
pub fn files_of(name: &str, source: PluginSource) -> Result<Vec<PluginFile>, ManageError> {
    match source {
        PluginSource::Inline { files } => Ok(files),
        PluginSource::Git { url, .. } => Err(rules::from_git(name, &url)),
    }
}

pub fn list(files: &[PluginFile]) -> FileList {
    let entry = |file: &PluginFile| FileEntry {
        path: file.path.clone(),
        bytes: file.content.len(),
        sha256: sha256(&file.content),
    };
    let mut files: Vec<FileEntry> = files.iter().map(entry).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    FileList { files }
}

/// # Errors
/// There is no such file.
pub fn read(files: &[PluginFile], path: &str) -> Result<FileContent, EditError> {
    let found = files.iter().find(|file| file.path == path);
    let PluginFile { path, content } = found.ok_or_else(|| missing(files, path))?.clone();
    let sha256 = sha256(&content);
    Ok(FileContent { path, content, sha256 })
}

/// The files after these changes, by path.
///
/// # Errors
/// One of the changes cannot be made.
pub fn edited(mut files: Vec<PluginFile>, edits: Vec<Edit>) -> Result<Vec<PluginFile>, EditError> {
    for edit in edits {
        match edit {
            Edit::Write { path, content, before } => {
                write(&mut files, path, content, before.as_deref())?;
            }
            Edit::Delete { path } => {
                take(&mut files, &path)?;
            }
            Edit::Move { path, to } => {
                let PluginFile { content, .. } = take(&mut files, &path)?;
                put(&mut files, to, content)?;
            }
        }
    }
    if files.len() > MOST_FILES {
        return Err(EditError::TooMany);
    }
    let bytes = files.iter().map(|file| file.content.len()).sum();
    if bytes > MOST_BYTES {
        return Err(EditError::TooLarge { bytes });
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Whether a bundle takes a path: relative, plain, and none of git's.
///
/// # Errors
/// What is wrong with it.
pub fn check_path(path: &str) -> Result<(), EditError> {
    let refuse = |why| Err(EditError::Path { path: shown(path), why });
    if path.is_empty() || path.len() > LONGEST {
        return refuse("is empty or longer than 1024 bytes; write one such as look/run.py");
    }
    for part in path.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return refuse(
                "begins or ends with `/`, or has an empty part, `.` or `..`; write it from the plugin's folder on, \
                 such as look/run.py",
            );
        }
        if part.len() > LONGEST_PART || part.chars().any(char::is_control) {
            return refuse(
                "has a part that is longer than 255 bytes or holds control characters; choose another name",
            );
        }
        if part.eq_ignore_ascii_case(".git") {
            return refuse("belongs to git; choose another name");
        }
    }
    Ok(())
}

fn write(
    files: &mut Vec<PluginFile>,
    path: String,
    content: String,
    before: Option<&str>,
) -> Result<(), EditError> {
    let there = files.iter_mut().find(|file| file.path == path);
    let is_as_read = |file: &PluginFile| {
        before.is_none_or(|before| sha256(&file.content).eq_ignore_ascii_case(before.trim()))
    };
    match there {
        // Asked again, it is done.
        Some(file) if file.content == content => Ok(()),
        Some(file) if is_as_read(file) => {
            file.content = content;
            Ok(())
        }
        None if before.is_none() => put(files, path, content),
        Some(_) | None => Err(EditError::Changed { path: shown(&path) }),
    }
}

fn take(files: &mut Vec<PluginFile>, path: &str) -> Result<PluginFile, EditError> {
    match files.iter().position(|file| file.path == path) {
        Some(place) => Ok(files.remove(place)),
        None => Err(missing(files, path)),
    }
}

/// A file where none is.
fn put(files: &mut Vec<PluginFile>, path: String, content: String) -> Result<(), EditError> {
    check_path(&path)?;
    let is_in = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
    };
    for file in files.iter().map(|file| file.path.as_str()) {
        let (shown, there) = (shown(&path), shown(file));
        if file == path {
            return Err(EditError::Exists { path: shown });
        }
        if is_in(file, &path) {
            return Err(EditError::Folder { path: shown, file: there });
        }
        if is_in(&path, file) {
            return Err(EditError::BeneathFile { path: shown, file: there });
        }
    }
    files.push(PluginFile { path, content });
    Ok(())
}

fn missing(files: &[PluginFile], path: &str) -> EditError {
    let mut known: Vec<String> = files.iter().map(|file| shown(&file.path)).collect();
    known.sort();
    let more = known.len().saturating_sub(NAMED);
    known.truncate(NAMED);
    if more > 0 {
        known.push(format!("and {more} more"));
    }
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    EditError::NoFile { path: shown(path), known }
}

/// As a message shows it.
fn shown(path: &str) -> String {
    path.chars().take(SHOWN).collect::<String>().escape_debug().to_string()
}

fn sha256(content: &str) -> String {
    hex::encode(Sha256::digest(content.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Vec<PluginFile> {
        let file = |(path, content): &(&str, &str)| PluginFile {
            path: (*path).to_owned(),
            content: (*content).to_owned(),
        };
        all.iter().map(file).collect()
    }

    fn dice() -> Vec<PluginFile> {
        files(&[("manifest.json", "{}"), ("roll/run.py", "one")])
    }

    fn write(path: &str, content: &str, before: Option<&str>) -> Edit {
        let before = before.map(str::to_owned);
        Edit::Write { path: path.to_owned(), content: content.to_owned(), before }
    }

    fn delete(path: &str) -> Edit {
        Edit::Delete { path: path.to_owned() }
    }

    fn moved(path: &str, to: &str) -> Edit {
        Edit::Move { path: path.to_owned(), to: to.to_owned() }
    }

    /// SHA-256 of `one`.
    const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";

    #[test]
    fn what_can_be_done_is_done() {
        let check = |edits: Vec<Edit>, expected: &[(&str, &str)]| {
            assert_eq!(edited(dice(), edits.clone()), Ok(files(expected)), "{edits:?}");
        };
        let manifest = ("manifest.json", "{}");
        check(Vec::new(), &[manifest, ("roll/run.py", "one")]);
        check(vec![write("roll/run.py", "two", None)], &[manifest, ("roll/run.py", "two")]);
        check(vec![write("roll/run.py", "two", Some(ONE))], &[manifest, ("roll/run.py", "two")]);
        check(
            vec![write("a/ä ö.py", "", None)],
            &[("a/ä ö.py", ""), manifest, ("roll/run.py", "one")],
        );
        check(vec![delete("roll/run.py")], &[manifest]);
        check(vec![moved("roll/run.py", "würfel/骰子.py")], &[manifest, ("würfel/骰子.py", "one")]);
        // One after the other: a place that was made free is free.
        check(
            vec![
                delete("roll/run.py"),
                write("roll", "x", None),
                moved("roll", "z"),
                moved("z", "z"),
            ],
            &[manifest, ("z", "x")],
        );
        // What was written already is written, whatever was read before that.
        check(vec![write("roll/run.py", "one", Some("0"))], &[manifest, ("roll/run.py", "one")]);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_what_to_do() {
        let check = |edit: Edit, part: &str| {
            let refused = edited(dice(), vec![write("new", "x", None), edit]).unwrap_err();
            assert!(refused.to_string().contains(part), "{part} in {refused}");
        };
        check(write("roll/run.py", "two", Some(&"0".repeat(64))), "read it again");
        check(write("gone.py", "two", Some(ONE)), "read it again");
        check(
            delete("roll"),
            "there is no file `roll`; the files are: manifest.json, new, roll/run.py",
        );
        check(moved("nosuch", "b"), "there is no file `nosuch`");
        check(moved("roll/run.py", "manifest.json"), "there is a file `manifest.json` already");
        check(moved("roll/run.py", "manifest.json/x"), "beneath `manifest.json`");
        check(moved("manifest.json", "roll"), "`roll` is a folder, of `roll/run.py`");
        check(moved("roll/run.py", "../x"), "write it from the plugin's folder on");
        check(write("roll", "x", None), "`roll` is a folder");
        check(write("new/x", "x", None), "beneath `new`, which is a file");
        check(write("large", &"x".repeat(MOST_BYTES), None), "bytes, and 716800 are the most");
    }

    #[test]
    fn paths_that_lie_are_no_paths() {
        let lies = "|/|/etc/passwd|a/|a//b|.|..|a/..|a/../../b|./a|a/.|a\nb|a\0|\u{1b}[31m|.git|.GIT/config|a/.git/x";
        for path in lies.split('|') {
            let refused = edited(dice(), vec![write(path, "x", None)]).unwrap_err();
            assert!(matches!(refused, EditError::Path { .. }), "{path:?}: {refused}");
            assert!(!refused.to_string().chars().any(char::is_control), "{refused}");
        }
        for path in [&"a".repeat(256), &"a/".repeat(600), &format!("{}b", "ab/".repeat(400))] {
            assert!(check_path(path).is_err(), "{path}");
        }
        for path in ["a", "a/b.py", "ä ö", "-rf", "..a", "a..", ".github/x", "a\\b"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn there_is_an_end_to_files() {
        let many = |count: usize| {
            (0..count).map(|number| write(&format!("f{number}"), "", None)).collect::<Vec<_>>()
        };
        assert_eq!(edited(Vec::new(), many(MOST_FILES)).map(|files| files.len()), Ok(MOST_FILES));
        assert_eq!(edited(Vec::new(), many(MOST_FILES + 1)), Err(EditError::TooMany));
        let all = edited(Vec::new(), many(NAMED + 10)).unwrap();
        let refused = edited(all, vec![delete("nosuch")]).unwrap_err();
        assert!(refused.to_string().ends_with("and 10 more"), "{refused}");
    }

    #[test]
    fn a_file_is_listed_and_read_with_what_its_next_change_names() {
        let listed = list(&dice()).files;
        let paths: Vec<(&str, usize)> =
            listed.iter().map(|file| (file.path.as_str(), file.bytes)).collect();
        assert_eq!(paths, [("manifest.json", 2), ("roll/run.py", 3)]);
        let found = read(&dice(), "roll/run.py").unwrap();
        assert_eq!((found.content.as_str(), found.sha256.as_str()), ("one", ONE));
        assert_eq!(listed.last().map(|file| file.sha256.as_str()), Some(ONE));
        assert!(read(&dice(), "roll").unwrap_err().to_string().contains("there is no file `roll`"));
    }

    #[test]
    fn what_is_from_git_is_not_edited_here() {
        let source = PluginSource::Git {
            url: "https://example.com/dice".to_owned(),
            r#ref: "v1".to_owned(),
        };
        let refused = files_of("dice", source).unwrap_err().to_string();
        assert!(refused.contains("`dice` is from https://example.com/dice"), "{refused}");
    }
}
