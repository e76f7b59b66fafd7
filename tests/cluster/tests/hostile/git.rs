//! Objects of a repository that no honest git would write, beside the node.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use famulus_cluster_tests::beside::{Repository, node};

/// Mode, name, object.
pub(crate) type Entry<'e> = (&'e str, &'e [u8], &'e str);

/// The bare side of a repository, which Pods fetch from.
pub(crate) struct Bare {
    folder: PathBuf,
}

impl Bare {
    /// A new, empty one, found as `git://git.example/NAME.git`.
    pub(crate) fn new(name: &str) -> Self {
        Repository::new(name);
        Self { folder: node().join(format!("internet/git/{name}.git")) }
    }

    /// Runs git there, with something on its input.
    fn git(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=test", "-c", "user.email=test@example.org"]);
        command.args(arguments).current_dir(&self.folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "git {arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn blob(&self, content: &[u8]) -> String {
        self.git(&["hash-object", "-w", "--stdin"], content)
    }

    /// A tree of raw entries, whatever git thinks of them.
    pub(crate) fn tree(&self, entries: &[Entry]) -> String {
        let mut raw = Vec::new();
        for (mode, name, object) in entries {
            raw.extend_from_slice(mode.as_bytes());
            raw.push(b' ');
            raw.extend_from_slice(name);
            raw.push(0);
            raw.extend(hex::decode(object).unwrap());
        }
        self.git(&["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &raw)
    }

    /// A branch with a commit of this tree.
    pub(crate) fn branch(&self, name: &str, tree: &str) {
        let commit = self.git(&["commit-tree", "-m", "m", tree], b"");
        self.git(&["update-ref", &format!("refs/heads/{name}"), &commit], b"");
    }
}
