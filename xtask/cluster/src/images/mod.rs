//! `cargo xtask images`: the container images, without a Docker daemon.
//!
//! The Dockerfiles in `images/` are what is built, by buildah; `docker build` takes the same folders.
//!
//! ```text
//! base       a small Debian by mmdebstrap, under the name that the Dockerfiles start from
//! programs   cargo build
//! contexts   target/images/NAME: Dockerfile, its files, the program, uv, Node
//! build      buildah, which keeps the layers whose inputs are the same
//! archives   OCI archives for `ctr images import`, `docker load`, `skopeo copy`
//! ```
//!
//! The same packages and programs give the same digests. The layers of packages are as old as the last
//! `--fresh`.

mod archive;
mod base;
mod build;
mod catalogue;
mod context;
mod fetched;
mod glibc;
mod proof;
mod rust;
mod storage;
mod switches;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use xtask_shell::programs::{self, Program};
use xtask_shell::workspace::{cache, root};
use xtask_shell::{Shell, lock};

use archive::Archive;
use catalogue::{IMAGES, Image};
use rust::Profile;
use storage::Storage;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How the programs are built
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
    /// Build this image and no other; may be repeated [default: all that a release has]
    #[arg(long, value_name = "NAME", value_parser = Image::parse)]
    only: Vec<&'static Image>,
    /// Where the archives go [default: target/images/archives]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Begin with today's packages instead of the layers of earlier builds
    #[arg(long)]
    fresh: bool,
    /// Build twice from nothing, and fail unless the digests are the same
    #[arg(long)]
    twice: bool,
    /// Run the proof of each image inside of it
    #[arg(long)]
    prove: bool,
    /// Only lay out target/images/NAME for `docker build`
    #[arg(long, conflicts_with_all = ["fresh", "twice", "prove", "out"])]
    contexts: bool,
}

impl Args {
    /// Every image with programs that are built quickly, and the proof of each.
    pub(crate) fn for_tests() -> Self {
        Self {
            profile: Profile::Dev,
            only: Vec::new(),
            out: None,
            fresh: false,
            twice: false,
            prove: true,
            contexts: false,
        }
    }
}

const BUILDING: [Program; 4] = [
    Program {
        name: "mmdebstrap",
        probe: &["mmdebstrap", "--version"],
        packages: &["mmdebstrap", "debian-archive-keyring"],
    },
    Program { name: "buildah", probe: &["buildah", "--version"], packages: &["buildah"] },
    Program { name: "strip", probe: &["strip", "--version"], packages: &["binutils"] },
    Program { name: "ip", probe: &["ip", "-V"], packages: &["iproute2"] },
];

pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    let is_wanted = |image: &&Image| image.is_released || args.profile == Profile::Dev;
    let all = || IMAGES.iter().filter(is_wanted).collect();
    let images = if args.only.is_empty() { all() } else { args.only };
    programs::ensure(shell, &programs::BUILD).await?;
    if args.contexts {
        rust::build(shell, args.profile, &images).await?;
        return lay_out(shell, args.profile, &images).await;
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "images are made of files that belong to others: run this as root, or run it with \
             --contexts and build the folders with docker"
        );
    }
    programs::ensure(shell, &BUILDING).await?;
    let folder = cache().join("images");
    let _lock = lock::take(shell, &folder.join("lock"), "builds images").await?;
    rust::build(shell, args.profile, &images).await?;

    let out = args.out.unwrap_or_else(archives);
    let storage = Storage::open(&folder, &base::key())?;
    if args.fresh || args.twice {
        storage.remove()?;
    }
    let first = pass(shell, &storage, args.profile, &images, &out).await?;
    if args.prove {
        for image in &images {
            proof::run(shell, &storage, image).await?;
        }
    }
    if args.twice {
        let again = Storage::open(&folder, "again")?;
        again.remove()?;
        let beside = out.join("again");
        let second = pass(shell, &again, args.profile, &images, &beside).await?;
        again.remove()?;
        archive::compare(&first, &second)?;
        fs::remove_dir_all(&beside)?;
        println!("two builds from nothing gave the same digests");
    }
    Ok(())
}

/// Builds images of this tree as tests want them: fast, and small enough.
pub(crate) async fn for_tests(shell: &mut Shell, names: &[&str]) -> Result<()> {
    run(shell, Args { only: named(names)?, prove: false, ..Args::for_tests() }).await
}

/// Builds images as users get them into a folder. Returns the archives.
pub(crate) async fn released(
    shell: &mut Shell,
    names: &[&str],
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    let args = Args {
        profile: Profile::Release,
        only: named(names)?,
        out: Some(folder.to_owned()),
        prove: false,
        ..Args::for_tests()
    };
    run(shell, args).await?;
    Ok(names.iter().map(|name| folder.join(format!("{name}.tar"))).collect())
}

fn named(names: &[&str]) -> Result<Vec<&'static Image>> {
    let found = names.iter().map(|name| Image::parse(name)).collect::<Result<Vec<_>, _>>();
    found.map_err(anyhow::Error::msg)
}

/// Where the archive of an image is that was built for nobody else.
pub(crate) fn archive_of(name: &str) -> PathBuf {
    archives().join(format!("{name}.tar"))
}

/// The folder of `uv` as the images have it, for tests that run plugins without one.
pub(crate) async fn uv(shell: &mut Shell) -> Result<PathBuf> {
    Ok(fetched::uv(shell).await?.join("bin"))
}

/// Where archives go that nobody wants elsewhere.
fn archives() -> PathBuf {
    root().join("target/images/archives")
}

/// Builds all `images` and says what became of each.
async fn pass(
    shell: &mut Shell,
    storage: &Storage,
    profile: Profile,
    images: &[&Image],
    out: &Path,
) -> Result<Vec<Archive>> {
    base::ensure(shell, storage).await?;
    let mut archives = Vec::new();
    for image in images {
        let begun = Instant::now();
        let context = context::lay_out(shell, image, profile).await?;
        let id = build::build(shell, storage, image, &context).await?;
        let archive = archive::write(shell, storage, image, &id, profile, out).await?;
        println!("{}", archive.line(begun.elapsed()));
        archives.push(archive);
    }
    storage.prune()?;
    Ok(archives)
}

/// Makes the folders, and says how docker makes images of them.
async fn lay_out(shell: &mut Shell, profile: Profile, images: &[&Image]) -> Result<()> {
    for image in images {
        let context = context::lay_out(shell, image, profile).await?;
        let mut line = format!("docker build --tag {}", image.reference());
        for argument in image.arguments() {
            line.push(' ');
            line.push_str(&argument);
        }
        println!("{line} {}", context.display());
    }
    Ok(())
}
