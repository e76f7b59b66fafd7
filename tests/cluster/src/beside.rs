//! What stands beside a node of `cargo xtask cluster`: repositories and packages that its Pods find.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// The variable that names the folder of the cluster, if it is ours and these tests run in its network.
pub(crate) const NODE: &str = "FAMULUS_TEST_NODE";

/// The folder of the cluster.
pub fn node() -> PathBuf {
    let folder = std::env::var(NODE).unwrap_or_else(|_| {
        panic!(
            "{NODE} is not set: these tests put repositories and packages beside the \
             node; run them by `cargo xtask cluster suite`"
        )
    });
    folder.into()
}

/// Runs a program on the host; it must succeed.
pub fn run(program: &str, args: &[&str], folder: &Path) {
    let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
}

/// A bare repository beside the node, and a tree to commit from.
pub struct Repository {
    pub tree: PathBuf,
}

impl Repository {
    /// One that Pods find as `git://git.example/NAME.git`.
    pub fn new(name: &str) -> Self {
        Self::below("internet/git", name)
    }

    /// One that Pods find as `root@git.example:NAME.git`, if they have the key: see [`owner_of_private`].
    pub fn private(name: &str) -> Self {
        Self::below("internet/ssh/home", name)
    }

    fn below(folder: &str, name: &str) -> Self {
        let bare = node().join(format!("{folder}/{name}.git"));
        let tree = node().join(format!("internet-trees/{name}"));
        for folder in [&bare, &tree] {
            if folder.exists() {
                fs::remove_dir_all(folder).unwrap();
            }
            fs::create_dir_all(folder).unwrap();
        }
        run("git", &["init", "-q", "--bare", "-b", "main"], &bare);
        run("git", &["init", "-q", "-b", "main"], &tree);
        run("git", &["remote", "add", "origin", bare.to_str().unwrap()], &tree);
        Self { tree }
    }

    pub fn write(&self, path: &str, content: &str) {
        use std::os::unix::fs::PermissionsExt;
        let file = self.tree.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        if content.starts_with("#!") {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// A tool without parameters: its manifest, and the script that it runs.
    pub fn tool(&self, name: &str, entrypoint: &str, script: &str) {
        let manifest = json!({
            "name": name, "description": "Says it.", "entrypoint": entrypoint, "parameters": {},
        });
        self.write(&format!("{name}/manifest.json"), &manifest.to_string());
        self.write(&format!("{name}/{entrypoint}"), script);
    }

    /// Everything of a folder, with what may be run.
    pub fn copy(&self, folder: &Path) {
        let everything = folder.join(".");
        run("cp", &["-a", everything.to_str().unwrap(), "."], &self.tree);
    }

    pub fn push(&self, message: &str) {
        run("git", &["add", "-A"], &self.tree);
        let who = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
        let mut commit = who.to_vec();
        commit.extend(["commit", "-q", "-m", message]);
        run("git", &commit, &self.tree);
        run("git", &["push", "-q", "origin", "main"], &self.tree);
    }
}

/// What the owner of private repositories has, as in a Secret: the key, and who the host is.
pub fn owner_of_private() -> Value {
    let read = |name: &str| fs::read_to_string(node().join("internet/ssh").join(name)).unwrap();
    json!({"ssh-privatekey": read("owner"), "known_hosts": read("known_hosts")})
}

/// The Plugin of the repository of its name, all of whose tools may run. `more` is further fields of the
/// spec.
pub fn plugin(name: &str, more: &Value) -> String {
    plugin_of(name, name, more)
}

/// The same of another repository: two tests do not share one.
pub fn plugin_of(repository: &str, name: &str, more: &Value) -> String {
    let url = format!("git://git.example/{repository}.git");
    let mut spec = json!({
        "name": name,
        "source": {"git": {"url": url, "ref": "main"}},
        "permissions": {"tools": ["*"]},
    });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let metadata = json!({"name": name});
    let plugin = json!({
        "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin", "metadata": metadata, "spec": spec,
    });
    plugin.to_string()
}

/// A wheel of one module, in the index that Pods find as `http://pypi.example/simple/`.
pub fn publish(package: &str, module: &str) {
    let folder = node().join(format!("internet/index/simple/{package}"));
    fs::create_dir_all(&folder).unwrap();
    let script = r#"
import sys, zipfile
package, module, path = sys.argv[1:]
info = f"{package}-1.0.dist-info"
files = {
    f"{package}/__init__.py": module,
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(path, "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
"#;
    let wheel = folder.join(format!("{package}-1.0-py3-none-any.whl"));
    run("python3", &["-c", script, package, module, wheel.to_str().unwrap()], &folder);
}
