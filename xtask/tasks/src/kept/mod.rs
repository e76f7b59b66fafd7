//! What was compiled on this machine before: a clean clone begins with it.
//!
//! What cargo made of other people's crates depends on the lock file, the manifests and the compiler,
//! not on the place of the clone. It is kept in the cache under a checksum of these; what was made of
//! [our own crates](ours), apart from it. Where there is nothing under it, the newest state will do: a line
//! in a manifest changes little of it, and cargo builds anew what does not fit.

mod copies;
mod ours;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};
use xtask_shell::workspace::{cache, members, root};
use xtask_shell::{digest, output_of};

/// The folders below `target` in which cargo builds for the tests: everything but the look at `.sqlx`, and
/// that.
const BUILDS: [&str; 2] = ["debug", "sqlx/debug"];

/// The folders of a build whose entries end with `-` and the checksum of what they belong to.
const PARTS: [&str; 3] = [".fingerprint", "build", "deps"];

/// How often a state may be made of the one before. What does not fit any more stays in it, so that some time one
/// is made of nothing.
const GENERATIONS: u32 = 4;

/// The file of a build that says how often that was.
const GENERATION: &str = ".generation";

/// As many states of the lock file, and as many places of clones, as somebody goes back and forth between. Each is
/// 3 GB.
const STATES: usize = 2;

/// Begins builds in which nothing of the product was made yet with what was kept.
pub(crate) fn restore() -> Result<()> {
    ours::restore()?;
    let kept = folder()?;
    for build in BUILDS {
        let (own, to) = (kept.join(build), root().join("target").join(build));
        let near = if own.exists() { None } else { nearest(&kept, build)? };
        let made = near.as_ref().map_or(0, |near| generation(near) + 1);
        let from = near.unwrap_or(own);
        if from.exists() && !has_product(&to)? {
            clear(&to)?;
            copies::bring(&from, &[".".into()], &to)?;
            fs::write(to.join(GENERATION), made.to_string())?;
        }
    }
    Ok(())
}

/// The newest build of another state that may be gone on with.
fn nearest(kept: &Path, build: &str) -> Result<Option<PathBuf>> {
    let all = kept.parent().context("the cache has a folder")?;
    let mut found: Option<(SystemTime, PathBuf)> = None;
    for state in fs::read_dir(all).into_iter().flatten() {
        let state = state?;
        let (path, made) = (state.path(), state.metadata()?.modified()?);
        let near = path.join(build);
        let is_whole =
            !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let fits = is_whole && near.exists() && generation(&near) < GENERATIONS;
        if fits && found.as_ref().is_none_or(|(newest, _)| made > *newest) {
            found = Some((made, near));
        }
    }
    Ok(found.map(|(_, near)| near))
}

/// How often it was made of the one before.
fn generation(build: &Path) -> u32 {
    let told = fs::read_to_string(build.join(GENERATION)).unwrap_or_default();
    told.trim().parse().unwrap_or(0)
}

/// Whether the program with everything in it was begun there. The task that runs was made in the
/// same folder a moment ago, so the folder says nothing.
fn has_product(build: &Path) -> Result<bool> {
    let made = build.join(PARTS[0]);
    if !made.exists() {
        return Ok(false);
    }
    for entry in fs::read_dir(made)? {
        if entry?.file_name().to_string_lossy().starts_with("famulus-server-") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes what the task that runs was made of: it goes with its own copies of dependencies, and not
/// with others that are like them.
fn clear(build: &Path) -> Result<()> {
    for part in PARTS.map(|part| build.join(part)) {
        if part.exists() {
            fs::remove_dir_all(&part)
                .with_context(|| format!("cannot remove {}", part.display()))?;
        }
    }
    fs::create_dir_all(build).with_context(|| format!("cannot make {}", build.display()))
}

/// Keeps of each build that is there what is not kept already. A run that fails later has kept it all the same,
/// so that the next one begins with it.
pub(crate) fn keep() -> Result<()> {
    ours::keep()?;
    let kept = folder()?;
    let all = kept.parent().context("the cache has a folder")?;
    fs::create_dir_all(all)?;
    let ours = names_of_ours()?;
    for build in BUILDS {
        let (from, to) = (root().join("target").join(build), kept.join(build));
        if to.exists() || !from.exists() {
            continue;
        }
        let making = tempfile::Builder::new().prefix(".making-").tempdir_in(all)?;
        copies::bring(&from, &foreign(&from, &ours)?, making.path())?;
        fs::write(making.path().join(GENERATION), generation(&from).to_string())?;
        fs::create_dir_all(to.parent().context("a build has a folder")?)?;
        fs::rename(making.keep(), &to)?;
    }
    forget_old(all)
}

/// Where the present state is kept.
fn folder() -> Result<PathBuf> {
    Ok(cache().join("dependencies").join(&digest::sha256(&state()?)[..16]))
}

/// What goes into everything that is compiled: the compiler, lock file and manifests.
fn state() -> Result<Vec<u8>> {
    let compiler = output_of(Command::new("rustc").arg("-vV"))?;
    let listed = output_of(Command::new("git").current_dir(root()).args([
        "ls-files",
        "Cargo.lock",
        ".cargo/config.toml",
        "*Cargo.toml",
    ]))?;
    let mut all = compiler;
    for file in String::from_utf8(listed)?.lines() {
        let path = root().join(file);
        if path.exists() {
            all.extend(file.bytes().chain([b'\n']).chain(fs::read(path)?));
        }
    }
    Ok(all)
}

fn names_of_ours() -> Result<BTreeSet<String>> {
    let members = members()?;
    let packages = members["packages"].as_array().context("cargo lists no packages")?;
    let names = packages.iter().filter_map(|package| package["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// What stands in a build and is not of our packages, relative to it.
fn foreign(build: &Path, ours: &BTreeSet<String>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut of_others = BTreeSet::new();
    for part in PARTS {
        for entry in fs::read_dir(build.join(part))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let Some((package, checksum)) = split(&name) else { continue };
            if part == PARTS[0] && !ours.contains(package) {
                of_others.insert(checksum.to_owned());
            }
            if of_others.contains(checksum) {
                found.push(Path::new(part).join(&name));
            }
        }
    }
    Ok(found)
}

/// The name of what an entry belongs to, and its checksum: `libserde-4b7c9ca0a5fab999.rlib`.
fn split(entry: &str) -> Option<(&str, &str)> {
    let (name, rest) = entry.rsplit_once('-')?;
    Some((name, rest.split('.').next()?))
}

/// Removes all but the newest states, and what was left half made.
fn forget_old(all: &Path) -> Result<()> {
    let mut states: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(all)? {
        let entry = entry?;
        states.push((entry.metadata()?.modified()?, entry.path()));
    }
    states.sort();
    states.reverse();
    for (_, old) in states.into_iter().skip(STATES) {
        fs::remove_dir_all(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_others_is_kept_and_ours_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let all = [
            ".fingerprint/serde-saphyr-00000000000000aa/lib",
            ".fingerprint/famulus-core-00000000000000bb/lib",
            ".fingerprint/http-00000000000000cc/lib",
            ".fingerprint/famulus-server-00000000000000dd/test",
            "build/serde-saphyr-00000000000000aa/output",
            "build/famulus-core-00000000000000bb/output",
            "deps/libserde_saphyr-00000000000000aa.rlib",
            "deps/serde_saphyr-00000000000000aa.d",
            "deps/libfamulus_core-00000000000000bb.rmeta",
            "deps/http-00000000000000cc.d",
            "deps/http-00000000000000dd.d",
            "deps/http-00000000000000dd",
        ];
        for file in all {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let ours = ["famulus-core", "famulus-server"].map(str::to_owned).into();
        let mut kept = foreign(folder.path(), &ours).unwrap();
        kept.sort();
        let expected = [
            ".fingerprint/http-00000000000000cc",
            ".fingerprint/serde-saphyr-00000000000000aa",
            "build/serde-saphyr-00000000000000aa",
            "deps/http-00000000000000cc.d",
            "deps/libserde_saphyr-00000000000000aa.rlib",
            "deps/serde_saphyr-00000000000000aa.d",
        ];
        assert_eq!(kept, expected.map(PathBuf::from));
    }

    #[test]
    fn only_a_build_without_the_product_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let build = folder.path().join("debug");
        assert!(!has_product(&build).unwrap());
        clear(&build).unwrap();
        let made = |name: &str| fs::create_dir_all(build.join(".fingerprint").join(name)).unwrap();
        made("xtask-00000000000000aa");
        assert!(!has_product(&build).unwrap());
        clear(&build).unwrap();
        assert!(build.exists() && !build.join(".fingerprint").exists());
        made("famulus-server-00000000000000bb");
        assert!(has_product(&build).unwrap());
    }

    #[test]
    fn the_newest_state_is_gone_on_with_a_few_times() {
        let folder = tempfile::tempdir().unwrap();
        let state = |name: &str, age: u64, generation: u32| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.join("debug")).unwrap();
            fs::write(path.join("debug").join(GENERATION), generation.to_string()).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age);
            fs::File::open(&path).unwrap().set_modified(time).unwrap();
        };
        let wanted = folder.path().join("a0");
        let nearest = || nearest(&wanted, "debug").unwrap();
        assert_eq!(nearest(), None);
        state(".making-x", 9, 0);
        assert_eq!(nearest(), None, "it is half of one");
        state("a1", 3, 1);
        state("a2", 5, GENERATIONS - 1);
        let near = nearest().unwrap();
        assert_eq!((&near, generation(&near)), (&folder.path().join("a2/debug"), GENERATIONS - 1));
        state("a3", 7, GENERATIONS);
        assert_eq!(nearest(), Some(near));
        fs::remove_dir_all(folder.path().join("a2")).unwrap();
        assert_eq!(nearest(), Some(folder.path().join("a1/debug")));
    }

    #[test]
    fn only_the_newest_states_stay() {
        let folder = tempfile::tempdir().unwrap();
        for (age, name) in ["oldest", ".making-old", "newer", "newest"].iter().enumerate() {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age as u64);
            fs::File::open(&path).unwrap().set_modified(time).unwrap();
        }
        forget_old(folder.path()).unwrap();
        let left = |name: &str| folder.path().join(name).exists();
        assert_eq!(
            ["oldest", ".making-old", "newer", "newest"].map(left),
            [false, false, true, true]
        );
    }
}
