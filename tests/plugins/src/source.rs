//! Where the files of a plugin come from, as a home is told: they are sent to it, or lie in a repository.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::outside::{Outside, Served, run};
use crate::plugin::{File, Plugin};

/// By which of the two ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    #[default]
    Sent,
    Git,
}

pub(crate) enum Source {
    Sent,
    Git(Repository),
}

/// What a home is to fetch, and what it finds there.
pub(crate) struct Fetch {
    /// Of the request.
    pub(crate) body: Value,
    pub(crate) commit: Option<String>,
    pub(crate) files: Vec<File>,
}

impl Source {
    /// # Errors
    /// The home has no repositories, or none can be made.
    pub(crate) fn of(plugin: &Plugin, outside: Option<&Outside>) -> Result<Self, String> {
        match (plugin.uses.source, outside) {
            (SourceKind::Sent, _) => Ok(Self::Sent),
            (SourceKind::Git, Some(outside)) => {
                Ok(Self::Git(Repository::new(&outside.git, &plugin.name)?))
            }
            (SourceKind::Git, None) => Err("this home fetches from no repositories".to_owned()),
        }
    }

    /// By which it is installed.
    ///
    /// # Errors
    /// Nothing can be committed.
    pub(crate) fn first(&self, plugin: &Plugin) -> Result<Fetch, String> {
        let files = plugin.first.clone();
        Ok(match self {
            Self::Sent => {
                let body = json!({"source": {"inline": {"files": files}}});
                Fetch { body, commit: None, files }
            }
            Self::Git(repository) => {
                let commit = repository.commit(&files)?;
                let body = json!({"source": {"git": {"url": repository.url, "ref": MAIN}}});
                Fetch { body, commit: Some(commit), files }
            }
        })
    }

    /// By which it is updated, one after another; the last of them is the second revision.
    ///
    /// # Errors
    /// Nothing can be committed.
    pub(crate) fn updates(&self, plugin: &Plugin) -> Result<Vec<Fetch>, String> {
        let second = plugin.second.clone();
        let Self::Git(repository) = self else {
            let body = json!({"files": second});
            return Ok(vec![Fetch { body, commit: None, files: second }]);
        };
        let noted = |files: &[File], what: &str| {
            let note = File { path: "CHANGES".to_owned(), content: format!("{what}\n") };
            files.iter().cloned().chain([note]).collect::<Vec<File>>()
        };
        let follow = |body: Value, commit: String, files: Vec<File>| Fetch {
            body,
            commit: Some(commit),
            files,
        };
        let newer = noted(&plugin.first, "A newer commit of the same branch.");
        let newer = follow(json!({}), repository.commit(&newer)?, newer);

        repository.git(&["checkout", "--quiet", "-b", "beta"])?;
        let beta = noted(&second, "On a branch of its own.");
        let beta = follow(json!({"ref": "beta"}), repository.commit(&beta)?, beta);

        // It is on no branch, and has an object of its own, which is not the commit.
        repository.git(&["checkout", "--quiet", "--detach", MAIN])?;
        let tagged = follow(json!({"ref": "v2"}), repository.commit(&second)?, second);
        repository.git(&["tag", "--annotate", "--message=v2", "v2"])?;
        repository.git(&["checkout", "--quiet", MAIN])?;
        Ok(vec![newer, beta, tagged])
    }
}

const MAIN: &str = "main";

pub(crate) struct Repository {
    folder: PathBuf,
    pub(crate) url: String,
}

impl Repository {
    /// A new, empty one in place of what has its name.
    pub(crate) fn new(git: &Served, name: &str) -> Result<Self, String> {
        let folder = git.folder.join(name);
        let made = if folder.exists() { fs::remove_dir_all(&folder) } else { Ok(()) };
        let made = made.and_then(|()| fs::create_dir_all(&folder));
        made.map_err(|error| format!("{}: {error}", folder.display()))?;
        let repository = Self { folder, url: format!("{}/{name}", git.url) };
        repository.git(&["init", "--quiet", &format!("--initial-branch={MAIN}")])?;
        Ok(repository)
    }

    fn git(&self, words: &[&str]) -> Result<String, String> {
        let mut git = Command::new("git");
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "Test").env(format!("GIT_{who}_EMAIL"), "t@t");
        }
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        run(git.args(words).current_dir(&self.folder))
    }

    /// Commits these files and no others to the branch that is checked out. The commit.
    pub(crate) fn commit(&self, files: &[File]) -> Result<String, String> {
        self.git(&["rm", "-r", "--force", "--quiet", "--ignore-unmatch", "."])?;
        for File { path, content } in files {
            let place = self.folder.join(path);
            put(&place, content).map_err(|error| format!("{}: {error}", place.display()))?;
        }
        self.git(&["add", "--all", "--force"])?;
        self.git(&["commit", "--quiet", "--message=m"])?;
        self.git(&["rev-parse", "HEAD"])
    }
}

/// What begins with `#!` can be executed.
fn put(place: &Path, content: &str) -> std::io::Result<()> {
    if let Some(above) = place.parent() {
        fs::create_dir_all(above)?;
    }
    fs::write(place, content)?;
    let mode = if content.starts_with("#!") { 0o755 } else { 0o644 };
    fs::set_permissions(place, fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::ToldBy;
    use crate::plugin::all;

    #[test]
    fn a_repository_has_a_newer_commit_a_branch_and_a_tag() {
        let folder = tempfile::tempdir().unwrap();
        let served = |url: &str| Served { folder: folder.path().to_owned(), url: url.to_owned() };
        let (packages, git) = (served("http://packages.example"), served("git://git.example"));
        let outside = Outside { packages, told_by: ToldBy::Owner, git };
        let plugin =
            all().into_iter().find(|plugin| plugin.uses.source == SourceKind::Git).unwrap();
        assert!(Source::of(&plugin, None).is_err());
        let source = Source::of(&plugin, Some(&outside)).unwrap();
        let Source::Git(repository) = &source else { panic!("{} is sent", plugin.name) };
        let first = source.first(&plugin).unwrap();
        let url = format!("git://git.example/{}", plugin.name);
        assert_eq!(first.body["source"]["git"], json!({"url": url, "ref": "main"}));
        let updates = source.updates(&plugin).unwrap();
        let bodies: Vec<&Value> = updates.iter().map(|update| &update.body).collect();
        assert_eq!(bodies, [&json!({}), &json!({"ref": "beta"}), &json!({"ref": "v2"})]);

        for Fetch { commit, files, .. } in [&first].into_iter().chain(&updates) {
            let commit = commit.as_ref().unwrap();
            let tree = repository.git(&["ls-tree", "-r", "--name-only", commit]).unwrap();
            let mut paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            paths.sort_unstable();
            assert_eq!(tree.lines().collect::<Vec<_>>(), paths);
        }
        assert_eq!(updates[2].files, plugin.second);
        let of = |name: &str| Some(repository.git(&["rev-parse", name]).unwrap());
        assert_eq!(
            (of("beta"), of("v2^{commit}")),
            (updates[1].commit.clone(), updates[2].commit.clone())
        );
        assert_eq!((of("main~1"), of("main")), (first.commit, updates[0].commit.clone()));
        assert_ne!(of("v2"), updates[2].commit, "the tag is an object of its own");
    }
}
