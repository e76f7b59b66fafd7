//! Building the programs of a cluster once, and keeping them.
//!
//! A module's folder in the cache is named by a checksum of its pins, its recipe and the Go that
//! builds it. A program appears there only when it is complete, so a build that was interrupted goes
//! on where it was; a lock lets one process build and the others wait.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask_shell::workspace::cache;
use xtask_shell::{Shell, digest, lock, output_of};

use super::pins::{Language, Module, Patch};

/// What every module is compiled with. Debug data would be made, and then left out by the linker; not making it saves
/// a twelfth of the time. What comes out is as large and laid out otherwise. Programs that were kept before are kept.
const FLAGS: [&str; 3] = ["-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false"];

/// Built programs, by name.
pub(super) struct Programs {
    folders: Vec<PathBuf>,
}

impl Programs {
    /// Builds what is not there yet, two modules at a time: what links keeps one processor busy, and what
    /// is fetched none.
    pub(super) async fn obtain(shell: &mut Shell, modules: &[&Module]) -> Result<Self> {
        let go = go_version()?;
        let left = RefCell::new(modules.iter().collect::<VecDeque<_>>());
        let lane = async |shell: &mut Shell| {
            let mut folders = Vec::new();
            loop {
                let Some(module) = left.borrow_mut().pop_front() else { return Ok(folders) };
                match obtain(shell, module, &go).await {
                    Ok(folder) => folders.push(folder),
                    Err(error) => {
                        // The other begins nothing more.
                        left.borrow_mut().clear();
                        return Err(error);
                    }
                }
            }
        };
        let mut another = Shell::new()?;
        match tokio::join!(lane(shell), lane(&mut another)) {
            (Ok(one), Ok(other)) => Ok(Self { folders: [one, other].concat() }),
            (Err(one), Err(other)) => Err(one.context(format!("{other:#}"))),
            (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
        }
    }

    /// A program, or a folder that was set beside the programs.
    pub(super) fn path(&self, name: &str) -> Result<PathBuf> {
        let mut paths = self.folders.iter().map(|folder| folder.join(name));
        paths.find(|path| path.exists()).with_context(|| format!("{name} was not built"))
    }

    /// All folders, for a search path.
    pub(super) fn search_path(&self) -> String {
        let folders = self.folders.iter().map(|folder| folder.to_string_lossy().into_owned());
        folders.collect::<Vec<_>>().join(":")
    }
}

fn go_version() -> Result<String> {
    let version = output_of(Command::new("go").args(["env", "GOVERSION"]))
        .context("Go is missing; install 1.26.6 or newer")?;
    Ok(String::from_utf8_lossy(&version).trim().to_owned())
}

/// The folder of a module's programs.
async fn obtain(shell: &mut Shell, module: &Module, go: &str) -> Result<PathBuf> {
    let name = module.name;
    let mut pins = Vec::new();
    read(&module.source(), Path::new(""), &mut pins)?;
    pins.sort();
    let cache = cache().join("cluster-programs");
    let folder = cache.join(format!("{name}-{}", key(&pins, &format!("{module:?}"), go)));
    if is_complete(module, &folder) {
        return Ok(folder);
    }
    let lock = cache.join(format!("{name}.lock"));
    let _lock = lock::take(shell, &lock, &format!("builds {name}")).await?;
    if is_complete(module, &folder) {
        return Ok(folder);
    }
    fs::create_dir_all(&folder)?;
    eprintln!("building {name}: {} (once; kept in {})", list(module), folder.display());
    let begun = Instant::now();
    let work = tempfile::Builder::new().prefix(".building-").tempdir_in(&cache)?;
    copy(&module.source(), work.path())?;
    build(shell, module, work.path(), &folder)
        .await
        .with_context(|| format!("cannot build {name}"))?;
    eprintln!("built {name} in {} s", begun.elapsed().as_secs());
    Ok(folder)
}

/// The files of a folder and of those in it, by their paths below it.
fn read(folder: &Path, below: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<()> {
    let entries = fs::read_dir(folder.join(below));
    for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let name = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            read(folder, &name, files)?;
        } else {
            files.push((name, fs::read(entry.path())?));
        }
    }
    Ok(())
}

/// A short checksum of all that decides what comes out of a build.
fn key(pins: &[(PathBuf, Vec<u8>)], recipe: &str, go: &str) -> String {
    let part = |(name, content): &(PathBuf, Vec<u8>)| {
        format!("{} {}", name.display(), digest::sha256(content))
    };
    let parts = pins.iter().map(part);
    let all = [parts.collect::<Vec<_>>().join("\n"), recipe.to_owned(), go.to_owned()];
    digest::sha256(all.join("\n").as_bytes())[..12].to_owned()
}

fn is_complete(module: &Module, folder: &Path) -> bool {
    let programs = module.programs.iter().map(|(name, _)| *name);
    let mut parts = programs.chain(module.folders.iter().map(|folder| folder.name));
    parts.all(|name| folder.join(name).exists())
}

fn list(module: &Module) -> String {
    module.programs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

async fn build(shell: &mut Shell, module: &Module, work: &Path, folder: &Path) -> Result<()> {
    let sources = if module.patches.is_empty() {
        "-mod=readonly"
    } else {
        shell.run(go(module, work, &["mod", "vendor"])).await?;
        for patch in module.patches {
            apply(patch, &work.join("vendor"))?;
        }
        "-mod=vendor"
    };
    let linker = format!("-ldflags=-s -w {}", module.linker);
    for (number, (name, package)) in module.programs.iter().enumerate() {
        if folder.join(name).exists() {
            continue;
        }
        eprintln!("{name} ({} of {})", number + 1, module.programs.len());
        let mut command = go(module, work, &["build", sources]);
        command.args(FLAGS).args(module.flags).arg(linker.trim()).args(["-o", name, package]);
        shell.run(command).await?;
        fs::rename(work.join(name), folder.join(name))?;
    }
    for wanted in module.folders {
        if folder.join(wanted.name).exists() {
            continue;
        }
        let from = module_folder(module, work, wanted.module)?.join(wanted.path);
        let copied = work.join(wanted.name);
        copy(&from, &copied).with_context(|| format!("cannot copy {}", from.display()))?;
        fs::rename(&copied, folder.join(wanted.name))?;
    }
    Ok(())
}

/// `go` in the work folder, with nothing from outside that changes what it makes.
fn go(module: &Module, work: &Path, args: &[&str]) -> Command {
    let c = if module.c == Language::GoAndC { "1" } else { "0" };
    let mut command = Command::new("go");
    command.current_dir(work).args(args);
    command.env("CGO_ENABLED", c).env("GOFLAGS", "").env("GOWORK", "off");
    command
}

fn apply(patch: &Patch, vendor: &Path) -> Result<()> {
    let file = vendor.join(patch.file);
    let text = fs::read_to_string(&file)
        .with_context(|| format!("there is nothing to change: {}", file.display()))?;
    let found = text.matches(patch.from).count();
    if found != 1 {
        bail!("{} has {:?} {found} times instead of once", file.display(), patch.from);
    }
    // Vendored files keep the mode of the module cache, where nothing may be written.
    fs::remove_file(&file)?;
    Ok(fs::write(&file, text.replacen(patch.from, patch.to, 1))?)
}

/// Where the sources of a module lie that `module` pins.
fn module_folder(module: &Module, work: &Path, wanted: &str) -> Result<PathBuf> {
    let told = output_of(&mut go(module, work, &["mod", "download", "-json", wanted]))?;
    let told: Value = serde_json::from_slice(&told).context("go mod download says no JSON")?;
    let folder = told["Dir"].as_str().with_context(|| format!("{wanted} has no folder"))?;
    Ok(PathBuf::from(folder))
}

/// Copies files and folders, with the modes of new ones: the module cache is read-only.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        return Ok(fs::write(to, fs::read(from)?)?);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_changes_with_everything_that_is_built_from() {
        let pins = |content: &str| vec![(PathBuf::from("go.mod"), content.as_bytes().to_vec())];
        let base = key(&pins("a"), "recipe", "go1.26");
        assert_eq!(base.len(), 12);
        assert_eq!(base, key(&pins("a"), "recipe", "go1.26"));
        assert_ne!(base, key(&pins("b"), "recipe", "go1.26"));
        assert_ne!(base, key(&pins("a"), "other", "go1.26"));
        assert_ne!(base, key(&pins("a"), "recipe", "go1.27"));
    }

    #[test]
    fn a_patch_applies_once_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let patch = Patch { file: "a.go", from: "old", to: "new" };
        let check = |text: &str, ok: bool| {
            fs::write(folder.path().join("a.go"), text).unwrap();
            assert_eq!(apply(&patch, folder.path()).is_ok(), ok, "{text}");
            fs::read_to_string(folder.path().join("a.go")).unwrap()
        };
        assert_eq!(check("an old text", true), "an new text");
        assert_eq!(check("old and old", false), "old and old");
        assert_eq!(check("nothing", false), "nothing");
    }
}
