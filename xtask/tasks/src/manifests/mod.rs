//! `cargo xtask manifests`: what of the chart is generated, and what is generated from the chart.
//!
//! ```text
//! crds/generated ──► charts/famulus-crds/definitions ──► charts/famulus ──► config/base
//! ```
//!
//! The chart is where a manifest is written by hand; `config/base` is the same for people who use
//! kubectl without Helm. Both copies are committed and compared by a test.

mod helm;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xtask_shell::Shell;
use xtask_shell::workspace::root;

use crate::elsewhere;

use helm::Helm;

/// The release that the base is rendered for. Its namespaces stand in the base's own files.
const RELEASE: &str = "famulus";

const HEADER: &str = "# Generated: cargo xtask manifests\n";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing, and fail when something would be written
    #[arg(long)]
    check: bool,
}

pub(crate) async fn run(shell: &mut Shell, args: &Args) -> Result<()> {
    let helm = Helm { program: elsewhere::path_of(shell, "helm").await? };
    if !args.check {
        // The base is rendered from a chart that holds the definitions.
        write_stale(definitions(&root().join("crds/generated"))?)?;
        return write_stale(generated(&helm)?);
    }
    let stale: Vec<Generated> = generated(&helm)?.into_iter().filter(Generated::is_stale).collect();
    if !stale.is_empty() {
        let names: Vec<String> = stale.iter().map(Generated::name).collect();
        bail!("{} out of date: run `cargo xtask manifests`", names.join(", "));
    }
    Ok(())
}

fn write_stale(files: Vec<Generated>) -> Result<()> {
    for file in files.into_iter().filter(Generated::is_stale) {
        fs::write(&file.path, &file.content)
            .with_context(|| format!("cannot write {}", file.path.display()))?;
        eprintln!("wrote {}", file.name());
    }
    Ok(())
}

/// A file and what should be in it.
struct Generated {
    path: PathBuf,
    content: String,
}

impl Generated {
    fn is_stale(&self) -> bool {
        fs::read_to_string(&self.path).ok().as_ref() != Some(&self.content)
    }

    /// As one says it in the workspace.
    fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }
}

fn generated(helm: &Helm) -> Result<Vec<Generated>> {
    let mut files = definitions(&root().join("crds/generated"))?;
    let base = helm.render(RELEASE, RELEASE, &["--set", "hooks.enabled=false"])?;
    let path = root().join("config/base/famulus.yaml");
    files.push(Generated { path, content: format!("{HEADER}{base}") });
    Ok(files)
}

fn definitions(from: &Path) -> Result<Vec<Generated>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        files.push(Generated {
            path: root().join("charts/famulus-crds/definitions").join(name),
            content: fs::read_to_string(&path)?,
        });
    }
    Ok(files)
}
