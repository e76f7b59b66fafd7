//! What stands outside of homes: an index of packages, and repositories that plugins are fetched from.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::plugin::{File, Plugin};

/// A folder, and the address at which a home finds what lies below it.
#[derive(Clone, Debug)]
pub struct Served {
    pub folder: PathBuf,
    pub url: String,
}

/// By whom a build is told where packages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
    /// By the owner, to the home: plugins do not know.
    Owner,
    /// By each plugin, in its own files.
    Plugin,
}

#[derive(Clone, Debug)]
pub struct Outside {
    /// Files over HTTP: below `simple` an index of Python packages, below `npm` a registry.
    pub packages: Served,
    pub told_by: ToldBy,
    /// Repositories over git's own protocol.
    pub git: Served,
}

impl Outside {
    /// The index of Python packages.
    pub fn python(&self) -> String {
        format!("{}/simple/", self.packages.url)
    }

    /// The registry of npm.
    pub fn npm(&self) -> String {
        format!("{}/npm/", self.packages.url)
    }

    /// Publishes the packages of a plugin. The plugin, as it is to be in this home.
    ///
    /// # Errors
    /// They cannot be made.
    pub(crate) fn provide(&self, plugin: &Plugin) -> Result<Plugin, String> {
        let mut plugin = plugin.clone();
        let Some(packages) = &plugin.packages else { return Ok(plugin) };
        self.publish(packages)?;
        if self.told_by == ToldBy::Plugin {
            for files in [&mut plugin.first, &mut plugin.second] {
                self.tell(files);
            }
        }
        Ok(plugin)
    }

    fn publish(&self, packages: &Path) -> Result<(), String> {
        let Served { folder, url } = &self.packages;
        let mut python = Command::new("python3");
        python.args(["-c", include_str!("publish.py")]).arg(packages).arg(folder).arg(url);
        run(&mut python).map(drop)
    }

    /// Has a plugin's own files name the index: its scripts for uv, a file for npm.
    fn tell(&self, files: &mut Vec<File>) {
        const END: &str = "\n# ///\n";
        let index =
            format!("\n#\n# [[tool.uv.index]]\n# url = \"{}\"\n# default = true", self.python());
        for file in &mut *files {
            file.content = file.content.replacen(END, &format!("{index}{END}"), 1);
        }
        if files.iter().any(|file| file.path == "package.json") {
            let content = format!("registry={}\n", self.npm());
            files.push(File { path: ".npmrc".to_owned(), content });
        }
    }
}

/// What a program printed; else what it said instead.
///
/// # Errors
/// It is not there, or it failed.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use super::*;
    use crate::plugin::{all, content};

    fn outside(folder: &Path, told_by: ToldBy) -> Outside {
        let served = |name: &str| Served {
            folder: folder.join(name),
            url: format!("http://{name}.example"),
        };
        Outside { packages: served("packages"), told_by, git: served("git") }
    }

    fn named(name: &str) -> Plugin {
        all().into_iter().find(|plugin| plugin.name == name).unwrap()
    }

    #[test]
    fn what_is_locked_is_what_is_published() {
        let folder = tempfile::tempdir().unwrap();
        let npm = named("npm");
        let provided = outside(folder.path(), ToldBy::Owner).provide(&npm).unwrap();
        assert_eq!((&provided.first, &provided.second), (&npm.first, &npm.second));
        let known = fs::read_to_string(folder.path().join("packages/npm/moonname")).unwrap();
        let known: Value = serde_json::from_str(&known).unwrap();
        let mut versions = Vec::new();
        for files in [&npm.first, &npm.second] {
            let lock: Value = serde_json::from_str(content(files, "package-lock.json")).unwrap();
            let locked = &lock["packages"]["node_modules/moonname"];
            let version = locked["version"].as_str().unwrap();
            let published = &known["versions"][version]["dist"];
            assert_eq!(published["integrity"], locked["integrity"], "{version}");
            let url = published["tarball"].as_str().unwrap();
            let path = url.strip_prefix("http://packages.example/").unwrap();
            assert!(folder.path().join("packages").join(path).is_file(), "{url}");
            versions.push(version.to_owned());
        }
        assert_ne!(versions[0], versions[1], "an update is of another version");
    }

    #[test]
    fn a_script_needs_a_version_that_the_index_has() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = named("wheel");
        outside(folder.path(), ToldBy::Owner).provide(&wheel).unwrap();
        let place = folder.path().join("packages/simple/tidetable");
        let index = fs::read_to_string(place.join("index.html")).unwrap();
        for (files, version) in [(&wheel.first, "1.0"), (&wheel.second, "1.1")] {
            let script = content(files, "tide/run.py");
            assert!(script.contains(&format!("\"tidetable=={version}\"")), "{script}");
            let name = format!("tidetable-{version}-py3-none-any.whl");
            assert!(index.contains(&format!("href=\"{name}\"")), "{index}");
            assert!(place.join(name).is_file());
        }
    }

    #[test]
    fn where_the_owner_tells_no_build_the_plugin_does() {
        let folder = tempfile::tempdir().unwrap();
        let outside = outside(folder.path(), ToldBy::Plugin);
        let wheel = outside.provide(&named("wheel")).unwrap();
        let script = content(&wheel.second, "tide/run.py");
        let block = "# dependencies = [\"tidetable==1.1\"]\n#\n# [[tool.uv.index]]\n\
                     # url = \"http://packages.example/simple/\"\n# default = true\n# ///\nimport";
        assert!(script.contains(block), "{script}");
        let npm = outside.provide(&named("npm")).unwrap();
        assert_eq!(content(&npm.first, ".npmrc"), "registry=http://packages.example/npm/\n");
        // Who needs no packages is as it was.
        let shell = named("shell");
        assert_eq!(outside.provide(&shell).unwrap().first, shell.first);
    }
}
