//! Where a plugin comes from: an address that the server fetches, or a folder of this machine, whose files are
//! read here and sent.

use std::fs;
use std::io;
use std::path::Path;

use famulus_core::plugin::editing::{MOST_BYTES, MOST_FILES};
use famulus_core::plugin::{PluginFile, PluginSource};

use crate::clean::one_line;
use crate::error::Error;

/// What git keeps for itself, a folder or a file.
const GIT: &str = ".git";
/// The branch that a repository shows first.
const HEAD: &str = "HEAD";
/// What is said of that which is too large.
const ELSEWHERE: &str =
    "take out what it does not need, or install it from a repository by its address";

/// Reads what was given as a source. A folder that exists is one, whatever its name looks like.
pub(crate) fn read(given: &str, reference: Option<&str>) -> Result<PluginSource, Error> {
    if given.contains("://") {
        return Ok(git(given, reference));
    }
    if Path::new(given).is_dir() {
        if let Some(reference) = reference {
            return Err(Error::Parameter {
                given: format!("--ref {reference}"),
                why: "is of a repository; leave it out for a folder".to_owned(),
            });
        }
        return Ok(PluginSource::Inline { files: folder(Path::new(given))? });
    }
    if is_of_ssh(given) {
        return Ok(git(given, reference));
    }
    Err(Error::PluginSource { given: one_line(given) })
}

fn git(url: &str, reference: Option<&str>) -> PluginSource {
    PluginSource::Git { url: url.to_owned(), r#ref: reference.unwrap_or(HEAD).to_owned() }
}

/// `git@host:path`.
fn is_of_ssh(given: &str) -> bool {
    let Some((host, path)) = given.split_once(':') else { return false };
    let Some((user, host)) = host.split_once('@') else { return false };
    !user.is_empty() && !host.is_empty() && !host.contains('/') && !path.is_empty()
}

/// All files of a folder, by their paths in it.
pub(crate) fn folder(root: &Path) -> Result<Vec<PluginFile>, Error> {
    let mut files = Vec::new();
    let mut left = MOST_BYTES;
    collect(root, "", &mut left, &mut files)?;
    if files.is_empty() {
        return Err(refused(root, "has no files; give the folder that holds its manifest.json"));
    }
    Ok(files)
}

fn collect(
    folder: &Path,
    inside: &str,
    left: &mut usize,
    files: &mut Vec<PluginFile>,
) -> Result<(), Error> {
    let unread = |source| Error::ReadFile { path: folder.to_owned(), source };
    let entries: io::Result<Vec<fs::DirEntry>> = fs::read_dir(folder).map_err(unread)?.collect();
    let mut entries = entries.map_err(unread)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        if name == GIT {
            continue;
        }
        let Some(name) = name.to_str() else {
            return Err(refused(&path, "has a name that is not UTF-8; rename it"));
        };
        let inside = if inside.is_empty() { name.to_owned() } else { format!("{inside}/{name}") };
        let kind =
            entry.file_type().map_err(|source| Error::ReadFile { path: path.clone(), source })?;
        if kind.is_dir() {
            collect(&path, &inside, left, files)?;
        } else if kind.is_file() {
            if files.len() == MOST_FILES {
                let why =
                    format!("is one file more than the {MOST_FILES} that can be sent; {ELSEWHERE}");
                return Err(refused(&path, &why));
            }
            let content = content(&path, *left)?;
            *left -= content.len();
            files.push(PluginFile { path: inside, content });
        } else if kind.is_symlink() {
            return Err(refused(&path, "is a link; put what it points to in its place"));
        } else {
            return Err(refused(&path, "is no regular file; remove it"));
        }
    }
    Ok(())
}

/// The text of a file that has `left` bytes at most.
pub(crate) fn content(path: &Path, left: usize) -> Result<String, Error> {
    let unread = |source| Error::ReadFile { path: path.to_owned(), source };
    let size = fs::metadata(path).map_err(unread)?.len();
    // Before it is read: it may be larger than the memory.
    if usize::try_from(size).is_ok_and(|size| size <= left) {
        let bytes = fs::read(path).map_err(unread)?;
        if bytes.len() <= left {
            return String::from_utf8(bytes).map_err(|_| {
                refused(
                    path,
                    "is not UTF-8 text, and only text can be sent; take it out, or install the plugin from a \
                     repository by its address",
                )
            });
        }
    }
    let most = MOST_BYTES / 1024;
    Err(refused(path, &format!("makes its files more than {most} KiB in all; {ELSEWHERE}")))
}

fn refused(path: &Path, why: &str) -> Error {
    Error::PluginFile { path: one_line(&path.display().to_string()), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    fn plugin() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("manifest.json", "{}");
        write("look/run.py", "#!/usr/bin/python3\n");
        write("look/manifest.json", "{\"ä\":1}");
        write(".git/HEAD", "ref");
        write("vendor/.git", "gitdir: elsewhere");
        folder
    }

    #[test]
    fn a_folder_is_read_with_all_its_files() {
        let plugin = plugin();
        let files = folder(plugin.path()).unwrap();
        let files: Vec<(&str, &str)> =
            files.iter().map(|file| (file.path.as_str(), file.content.as_str())).collect();
        assert_eq!(
            files,
            [
                ("look/manifest.json", "{\"ä\":1}"),
                ("look/run.py", "#!/usr/bin/python3\n"),
                ("manifest.json", "{}"),
            ]
        );
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let check = |change: &dyn Fn(&Path), parts: &[&str]| {
            let plugin = plugin();
            change(plugin.path());
            let error = folder(plugin.path()).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{part} in {error}");
            }
        };
        check(&|it| fs::write(it.join("look/a.png"), b"\xff").unwrap(), &["look/a.png", "UTF-8"]);
        check(&|it| symlink("/etc/passwd", it.join("b")).unwrap(), &["/b ", "is a link", "put"]);
        check(&|it| symlink("/etc", it.join("c")).unwrap(), &["/c ", "is a link"]);
        check(
            &|it| fs::write(it.join("z-large"), "x".repeat(MOST_BYTES)).unwrap(),
            &["/z-large ", "more than 700 KiB", "repository"],
        );
        let many = |it: &Path| {
            for number in 0..MOST_FILES - 2 {
                fs::write(it.join(format!("z{number:03}")), "").unwrap();
            }
        };
        check(&many, &["/z197 ", "200", "repository"]);
        check(
            &|it| {
                fs::remove_dir_all(it).unwrap();
                fs::create_dir(it).unwrap();
            },
            &["has no files"],
        );
    }

    #[test]
    fn an_address_is_told_from_a_folder() {
        let plugin = plugin();
        let here = plugin.path().to_str().unwrap();
        let check =
            |given: &str, reference: Option<&str>, expected: Result<Option<&str>, &str>| match (
                read(given, reference),
                expected,
            ) {
                (Ok(PluginSource::Git { url, r#ref }), Ok(Some(expected))) => {
                    assert_eq!((url.as_str(), r#ref.as_str()), (given, expected));
                }
                (Ok(PluginSource::Inline { files }), Ok(None)) => assert_eq!(files.len(), 3),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (read, _) => panic!("{given}: {read:?}"),
            };
        check("https://example.org/weather.git", None, Ok(Some("HEAD")));
        check("ssh://git@example.org/weather", Some("v2"), Ok(Some("v2")));
        check("git@example.org:ada/weather.git", None, Ok(Some("HEAD")));
        check(here, None, Ok(None));
        check(here, Some("main"), Err("leave it out"));
        check("/nosuch/folder", None, Err("neither the address"));
        check("example.org/weather", None, Err("neither the address"));
        check("a/b@c/d:e", None, Err("neither the address"));
    }
}
