//! Packages that a script names in its own first lines, fetched once for all of its calls.
//!
//! A script says what it needs in a block `# /// script`. `uv` keeps an environment for it in the
//! plugin's cache, by the path of the script; a call finds it there and asks no index.

use std::path::{Path, PathBuf};
use std::time::Duration;

use famulus_runner_harness::supervisor::Supervisor;

use super::init::{Step, in_tree, words};
use crate::bundle::Failure;
use crate::settings::Sandbox;
use famulus_bundle::manifest::{self, PluginManifest};
use famulus_bundle::{BLOCK, Tree};
use famulus_runner_harness::scratch::Scratch;

/// How long the packages of one script may take.
const DEADLINE: Duration = Duration::from_mins(5);

/// Fetches what the entrypoints of the plugin need.
pub(super) async fn resolve(
    tree: &Tree,
    plugin: &PluginManifest,
    sandbox: &Sandbox,
    supervisor: &Supervisor,
) -> Result<(), Failure> {
    let scripts = scripts(tree, plugin);
    if scripts.is_empty() {
        return Ok(());
    }
    let Some(uv) = find("uv", &sandbox.environment.path) else {
        return Err(Failure::build(format!(
            "{} names packages by `{BLOCK}`, and this image has no uv to fetch them; use one that \
             has",
            scripts.join(", ")
        )));
    };
    let scratch = Scratch::make(sandbox.scratch.join(&plugin.name))
        .map_err(Failure::disk("the scratch folder"))?;
    for script in scripts {
        let path = tree.root().join(&script).to_string_lossy().into_owned();
        let arguments = ["sync", "--quiet", "--no-progress", "--no-config", "--script", &path];
        let arguments = arguments.map(str::to_owned).into();
        let step = Step { program: &uv, arguments, scratch: scratch.path(), deadline: DEADLINE };
        let ran = in_tree(tree, step, sandbox, supervisor).await?;
        if !ran.is_good() {
            let what = format!("fetching the packages of {script}");
            return Err(Failure::build(words(&what, &ran, DEADLINE)));
        }
    }
    Ok(())
}

/// Entrypoints that name packages.
fn scripts(tree: &Tree, plugin: &PluginManifest) -> Vec<String> {
    let init = plugin.init.iter().map(|init| init.entrypoint.clone());
    let tools = tree.tools().unwrap_or_default().into_iter().filter_map(|name| {
        let tool = manifest::tool(tree, &name).ok()?;
        Some(format!("{name}/{}", tool.entrypoint))
    });
    let all = init.chain(tools);
    all.filter(|path| tree.read(path).is_ok_and(|text| names_packages(&text))).collect()
}

fn names_packages(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == BLOCK)
}

fn find(program: &str, path: &str) -> Option<PathBuf> {
    path.split(':').map(|folder| Path::new(folder).join(program)).find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_names_packages_is_told_by_its_block() {
        assert!(names_packages(
            "#!/usr/bin/env -S uv run\n# /// script\n# dependencies = []\n# ///\n"
        ));
        assert!(!names_packages("#!/usr/bin/env python3\nprint('# /// script')\n"));
        assert_eq!(find("sh", "/nowhere:/bin"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("no-such-program", "/bin"), None);
    }
}
