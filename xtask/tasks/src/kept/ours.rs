//! What cargo made of our own crates: a clean clone begins with it where an earlier one stood.
//!
//! Cargo goes by the times of files, and those of a clone are all new. Whether a file is the one that was
//! compiled is told by its checksum: one that is has its former time back, any other is written anew, and cargo
//! builds what uses it: sources and what they include, which the compiler names one by one. Nothing is used where
//! the place, the compiler or a manifest differs, or a file that [need not be named](is_unnamed).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use xtask_shell::workspace::{cache, root};
use xtask_shell::{digest, output_of};

use super::{PARTS, clear, copies, forget_old, has_product, state};

/// Names the files of the tree that a kept build was made of, each with checksum and time.
const FILES: &str = "files.json";

/// What cargo has beside the parts: examples, which tests run.
const EXAMPLES: &str = "examples";

/// Files of a tree, each with its checksum and its time in nanoseconds since 1970.
type Files = BTreeMap<String, (String, u64)>;

/// Begins a build in which nothing of the product was made with what was kept, if it fits.
pub(super) fn restore() -> Result<()> {
    let kept = place(root())?;
    let build = build(root());
    if kept.exists() && !has_product(&build)? {
        clear(&build)?;
        bring_back(&kept, root())?;
    }
    Ok(())
}

/// Keeps a build that is whole instead of any other of the same place.
pub(super) fn keep() -> Result<()> {
    let kept = place(root())?;
    if !kept.exists() || checksums(&read(&kept.join(FILES))?) != checksums(&files(root())?) {
        let of_place = kept.parent().context("a place has a folder")?;
        if of_place.exists() {
            fs::remove_dir_all(of_place)
                .with_context(|| format!("cannot remove {}", of_place.display()))?;
        }
        put_away(root(), &kept)?;
        forget_old(of_place.parent().context("the cache has a folder")?)?;
    }
    Ok(())
}

fn put_away(tree: &Path, kept: &Path) -> Result<()> {
    let (build, making) = (build(tree), kept.with_extension("making"));
    copies::bring(&build, &parts(&build), &making)?;
    let named = files(tree)?.into_iter();
    let named: Value = named.map(|(name, (sum, time))| (name, json!([sum, time]))).collect();
    fs::write(making.join(FILES), named.to_string())?;
    fs::rename(&making, kept).with_context(|| format!("cannot make {}", kept.display()))
}

fn bring_back(kept: &Path, tree: &Path) -> Result<()> {
    copies::bring(kept, &parts(kept), &build(tree))?;
    let kept = read(&kept.join(FILES))?;
    for (name, (present, _)) in files(tree)? {
        let path = tree.join(&name);
        match kept.get(&name) {
            Some((checksum, time)) if *checksum == present => {
                let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(*time);
                File::open(path)?.set_modified(time)?;
            }
            // It may be older than the build, as where a clone was moved here.
            Some(_) | None => fs::write(&path, fs::read(&path)?)?,
        }
    }
    Ok(())
}

fn build(tree: &Path) -> PathBuf {
    tree.join("target/debug")
}

fn checksums(files: &Files) -> BTreeMap<&str, &str> {
    files.iter().map(|(name, (checksum, _))| (name.as_str(), checksum.as_str())).collect()
}

/// The parts of a build that are there.
fn parts(build: &Path) -> Vec<PathBuf> {
    let names = PARTS.into_iter().chain([EXAMPLES]);
    names.map(PathBuf::from).filter(|name| build.join(name).exists()).collect()
}

/// Where a build of a tree is kept, whatever its sources say: in the folder of its place.
fn place(tree: &Path) -> Result<PathBuf> {
    let mut all = state()?;
    for name in tracked(tree)?.iter().filter(|name| is_unnamed(tree, name)) {
        all.extend(name.bytes().chain([b'\n']).chain(checksum(&tree.join(name))?.bytes()));
    }
    let place = digest::sha256(tree.as_os_str().as_encoded_bytes());
    Ok(cache().join("built").join(&place[..16]).join(&digest::sha256(&all)[..16]))
}

fn files(tree: &Path) -> Result<Files> {
    let mut files = Files::new();
    for name in tracked(tree)? {
        let path = tree.join(&name);
        if path.is_file() && !path.is_symlink() {
            let time = path.metadata()?.modified()?.duration_since(SystemTime::UNIX_EPOCH)?;
            files.insert(name, (checksum(&path)?, u64::try_from(time.as_nanos())?));
        }
    }
    Ok(files)
}

/// What may be read while compiling and nobody tells cargo: the macros of sqlx read migrations and what is in `.sqlx`,
/// tools the settings at the root. The time of a link is that of another file.
fn is_unnamed(tree: &Path, name: &str) -> bool {
    let ends_with = |ending| Path::new(name).extension().is_some_and(|its| its == ending);
    let is_setting = name.starts_with('.') || (!name.contains('/') && !ends_with("md"));
    is_setting || ends_with("sql") || tree.join(name).is_symlink()
}

/// The files of a tree.
fn tracked(tree: &Path) -> Result<Vec<String>> {
    let listed = output_of(Command::new("git").current_dir(tree).args(["ls-files", "-z"]))?;
    let listed = String::from_utf8(listed)?;
    Ok(listed.split_terminator('\0').map(ToOwned::to_owned).collect())
}

/// Of a file or of what a link names; of nothing where it is gone.
fn checksum(path: &Path) -> Result<String> {
    let content = if path.is_symlink() {
        fs::read_link(path)?.into_os_string().into_encoded_bytes()
    } else if path.exists() {
        fs::read(path)?
    } else {
        Vec::new()
    };
    Ok(digest::sha256(&content))
}

fn read(list: &Path) -> Result<Files> {
    let written: Value = serde_json::from_slice(&fs::read(list)?)?;
    let mut files = Files::new();
    for (name, of) in written.as_object().context("no files are named")? {
        let checksum = of[0].as_str().context("a file has no checksum")?;
        let time = of[1].as_u64().context("a file has no time")?;
        files.insert(name.clone(), (checksum.to_owned(), time));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A package of a library, a module of it and a program, which says what both say.
    fn write(tree: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for words in [&["init", "--quiet"][..], &["add", "."]] {
            output_of(Command::new("git").current_dir(tree).args(words)).unwrap();
        }
    }

    /// What it says, and whether cargo compiled the library and the program for it.
    fn run(tree: &Path) -> (String, Vec<&'static str>) {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(tree).env_remove("CARGO_TARGET_DIR").env("CARGO_INCREMENTAL", "0");
        let ran = cargo.args(["run", "--offline"]).output().unwrap();
        let told = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.success(), "{told}");
        let compiled = ["inner", "outer"].into_iter();
        let compiled = compiled.filter(|name| told.contains(&format!("Compiling {name} ")));
        (String::from_utf8(ran.stdout).unwrap(), compiled.collect())
    }

    const TREE: [(&str, &str); 8] = [
        ("Cargo.toml", "[workspace]\nmembers = [\"inner\", \"outer\"]\nresolver = \"3\"\n"),
        ("inner/Cargo.toml", "[package]\nname = \"inner\"\nedition = \"2024\"\n"),
        ("inner/src/lib.rs", "mod word; pub use word::word;"),
        ("inner/src/word.rs", "pub fn word() -> &'static str { \"one\" }"),
        (
            "outer/Cargo.toml",
            "[package]\nname = \"outer\"\nedition = \"2024\"\n[dependencies]\ninner.path = \"../inner\"\n",
        ),
        ("outer/src/main.rs", "mod end; fn main() { print!(\"{}{}\", inner::word(), end::END) }"),
        ("outer/src/end.rs", "pub const END: &str = include_str!(\"../end.txt\");"),
        ("outer/end.txt", "."),
    ];

    #[test]
    fn a_clone_in_the_same_place_builds_what_uses_a_source_that_differs_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, kept) = (folder.path().join("tree"), folder.path().join("kept"));
        write(&tree, &TREE);
        assert_eq!(run(&tree), ("one.".to_owned(), vec!["inner", "outer"]));
        put_away(&tree, &kept).unwrap();

        let begin = |changed: &[(&str, &str)]| {
            fs::remove_dir_all(&tree).unwrap();
            write(&tree, &TREE);
            write(&tree, changed);
            // A clone may be older than what was built where it stands now.
            for (name, _) in TREE.iter().chain(changed) {
                File::open(tree.join(name)).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }
            bring_back(&kept, &tree).unwrap();
            run(&tree)
        };
        assert_eq!(begin(&[]), ("one.".to_owned(), vec![]));
        let end = ("outer/src/end.rs", "pub const END: &str = \"!\";");
        assert_eq!(begin(&[end]), ("one!".to_owned(), vec!["outer"]));
        assert_eq!(begin(&[("outer/end.txt", "?")]), ("one?".to_owned(), vec!["outer"]));
        assert_eq!(begin(&[("config/end.txt", "?")]), ("one.".to_owned(), vec![]));
        let word = ("inner/src/word.rs", "pub fn word() -> &'static str { \"two\" }");
        assert_eq!(begin(&[word]), ("two.".to_owned(), vec!["inner", "outer"]));
        // What was made of others went into this tree alone.
        assert_eq!(begin(&[]), ("one.".to_owned(), vec![]));
        let other = ("inner/src/word.rs", "#[path = \"other.rs\"] mod other; pub use other::word;");
        let inner = ("inner/src/other.rs", "pub fn word() -> &'static str { \"six\" }");
        assert_eq!(begin(&[other, inner]), ("six.".to_owned(), vec!["inner", "outer"]));
    }

    #[test]
    fn a_file_that_need_not_be_named_or_a_place_has_a_state_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, other) = (folder.path().join("tree"), folder.path().join("other"));
        write(&tree, &TREE);
        write(&other, &TREE);
        let before = place(&tree).unwrap();
        assert_ne!(place(&other).unwrap().parent(), before.parent());
        let named = [
            ("inner/src/word.rs", "pub fn word() {}"),
            ("outer/end.txt", "!"),
            ("charts/values.yaml", "cpu: 1"),
            ("README.md", "Words."),
        ];
        write(&tree, &named);
        assert_eq!(place(&tree).unwrap(), before);
        let mut seen = BTreeSet::from([before.clone()]);
        for name in ["inner/migrations/1.sql", ".sqlx/query.json", "clippy.toml"] {
            for text in ["1", "2"] {
                write(&tree, &[(name, text)]);
                let other = place(&tree).unwrap();
                assert_eq!(other.parent(), before.parent(), "one of them is kept");
                assert!(seen.insert(other), "{name} has the state of another");
            }
        }
        for target in ["end.txt", "src/end.rs"] {
            let link = tree.join("outer/link.txt");
            if link.is_symlink() {
                fs::remove_file(&link).unwrap();
            }
            std::os::unix::fs::symlink(target, link).unwrap();
            write(&tree, &[]);
            assert!(seen.insert(place(&tree).unwrap()), "a link has the state of another");
        }
    }
}
