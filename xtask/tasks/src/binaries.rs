//! The tests of the workspace: built once, all with the same features, and then run as they are.
//!
//! A test mostly waits, for Postgres, a process or a lease, so a few programs run at once. What each
//! says is printed whole, when it has ended.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::process::Child;
use xtask_shell::failures;
use xtask_shell::workspace::{FEATURES, root};
use xtask_shell::{Shell, cargo};

/// What takes longest, and so is begun first.
const LONGEST: [&str; 4] = ["crash", "http", "newcomer", "calls"];

/// Between two looks whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A program with tests.
pub(crate) struct Tests {
    /// Of the package.
    folder: PathBuf,
    package: String,
    /// Of the target: `crash`, or the name of a library.
    name: String,
    /// In `tests`, and not of a library or a program.
    is_integration: bool,
    program: PathBuf,
}

/// All of them.
pub(crate) struct Binaries {
    all: Vec<Tests>,
    /// Variables that name the folders of tools.
    tools: Vec<(&'static str, PathBuf)>,
}

/// How they are run.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    /// Programs at once, and in each of them tests at once.
    pub(crate) programs: usize,
    pub(crate) threads: usize,
    /// Behind the programs' names.
    pub(crate) words: &'a [&'a str],
    pub(crate) variables: &'a [(&'a str, &'a str)],
    /// A superuser's URL.
    pub(crate) database: Option<&'a str>,
}

impl<'a> Way<'a> {
    /// As is quick on two cores.
    pub(crate) fn of(words: &'a [&'a str]) -> Self {
        Self { programs: 3, threads: 3, words, variables: &[], database: None }
    }
}

impl Binaries {
    /// Builds all tests of the workspace and the programs that they run.
    pub(crate) async fn build(shell: &mut Shell) -> Result<Self> {
        let mut command = cargo(["test", "--workspace", "--no-run", "--features", FEATURES]);
        command.args(["--message-format", "json-render-diagnostics"]);
        let said = shell.read(command).await?;
        let mut all = Vec::new();
        for line in said.lines() {
            let message = serde_json::from_str(line).context("cargo says no JSON")?;
            all.extend(of(&message));
        }
        ensure!(!all.is_empty(), "cargo built no tests");
        // The largest of the others mostly take longest, and none of those should be left over at the end.
        all.sort_by_cached_key(|tests| {
            let place = LONGEST.iter().position(|name| tests.is_integration && *name == tests.name);
            let size = fs::metadata(&tests.program).map_or(0, |file| file.len());
            (place.unwrap_or(LONGEST.len()), Reverse(size))
        });
        Ok(Self { all, tools: Vec::new() })
    }

    /// With variables that name the folders of tools, which nobody needs before a test runs.
    pub(crate) fn with(mut self, tools: Vec<(&'static str, PathBuf)>) -> Self {
        self.tools = tools;
        self
    }

    /// They need nothing but the tree.
    pub(crate) fn is_unit(tests: &Tests) -> bool {
        !tests.is_integration
    }

    /// The look at the program that is shipped, once there is one.
    pub(crate) fn is_of_release(tests: &Tests) -> bool {
        tests.is_integration && tests.name == "release_is_clean"
    }

    /// All others but those that need an installation on a cluster.
    pub(crate) fn is_local(tests: &Tests) -> bool {
        let is_of_cluster = tests.is_integration
            && (tests.package == "famulus-cluster-tests" || tests.name == "granted");
        !is_of_cluster && !Self::is_of_release(tests)
    }

    /// Runs those that are wanted, also when one has failed; returns how many tests they were.
    pub(crate) async fn run(
        &self,
        shell: &mut Shell,
        is_wanted: impl Fn(&Tests) -> bool,
        way: &Way<'_>,
    ) -> Result<usize> {
        let (mut waiting, mut running) = (self.all.iter().filter(|one| is_wanted(one)), Vec::new());
        let (mut failed, mut ran) = (Vec::new(), 0);
        loop {
            while running.len() < way.programs
                && let Some(next) = waiting.next()
            {
                running.push(Running::start(next, &self.tools, way)?);
            }
            if running.is_empty() {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                // What runs ends with this.
                signal = shell.signals.wait_for_signal() => bail!("stopped by a signal ({signal:?})"),
            }
            let mut still = Vec::new();
            for mut one in running {
                match one.child.try_wait()? {
                    None => still.push(one),
                    Some(status) => {
                        let said = one.said()?;
                        ran += count(&said);
                        println!("{} ({} s)\n{said}", one.title(), one.begun.elapsed().as_secs());
                        if !status.success() {
                            let why = failures::told(&said);
                            failed.push(format!("{}: {status}\n{why}", one.title()));
                        }
                    }
                }
            }
            running = still;
        }
        let failed = failed.join("\n");
        ensure!(failed.is_empty(), "tests failed; all that they said stands above:\n{failed}");
        Ok(ran)
    }
}

/// How many tests a program says that it runs.
fn count(said: &str) -> usize {
    let begin = said.lines().find_map(|line| line.strip_prefix("running "));
    let number = begin.and_then(|line| line.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The program with tests that a message of cargo's is about, if it is about one.
fn of(message: &Value) -> Option<Tests> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let program = PathBuf::from(message["executable"].as_str()?);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let id = message["package_id"].as_str()?;
    // `path+file:///PATH/NAME#0.1.0`, or `path+file:///PATH#NAME@0.1.0` where they differ.
    let (path, version) = id.rsplit_once('#')?;
    let package = match version.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next()?,
    };
    Some(Tests {
        folder: manifest.parent()?.to_owned(),
        package: package.to_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        is_integration: message["target"]["kind"][0] == "test",
        program,
    })
}

struct Running<'a> {
    tests: &'a Tests,
    child: Child,
    said: PathBuf,
    begun: Instant,
}

impl<'a> Running<'a> {
    fn start(tests: &'a Tests, tools: &[(&'static str, PathBuf)], way: &Way<'_>) -> Result<Self> {
        let folder = root().join("target/tests");
        fs::create_dir_all(&folder)?;
        let name = tests.program.file_name().context("a program has a name")?;
        let said = folder.join(name).with_extension("said");
        let file = File::create(&said)?;
        let mut command = Command::new(&tests.program);
        command.args(way.words).args(["--test-threads", &way.threads.to_string()]);
        command.current_dir(&tests.folder).envs(way.variables.iter().copied());
        command.envs(tools.iter().map(|(name, folder)| (*name, folder)));
        if let Some(database) = way.database {
            command.env("FAMULUS_TEST_DATABASE_URL", database);
        }
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = tokio::process::Command::from(command).spawn();
        let child = child.with_context(|| format!("cannot run {}", tests.program.display()))?;
        Ok(Self { tests, child, said, begun: Instant::now() })
    }

    fn title(&self) -> String {
        format!("{}, {}", self.tests.package, self.tests.name)
    }

    fn said(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.said)?).into_owned())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // A child that was waited for has no id any more.
        if let Some(group) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let _ended = kill_process_group(group, Signal::TERM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_message_about_a_program_with_tests_is_told_from_others() {
        let message = |is_test: bool, kind: &str, id: &str| {
            json!({
                "reason": "compiler-artifact", "package_id": id,
                "manifest_path": "/w/app/server/Cargo.toml",
                "target": {"kind": [kind], "name": "crash"},
                "profile": {"test": is_test}, "executable": "/w/target/debug/deps/crash-1",
            })
        };
        let check = |message: &Value, expected: Option<(&str, bool)>| {
            let found = of(message);
            let found = found.as_ref().map(|one| (one.package.as_str(), one.is_integration));
            assert_eq!(found, expected, "{message}");
        };
        let server = "path+file:///w/app/server#famulus-server@0.1.0";
        check(&message(true, "test", server), Some(("famulus-server", true)));
        check(&message(true, "lib", "path+file:///w/xtask#0.1.0"), Some(("xtask", false)));
        check(&message(false, "bin", server), None);
        check(&json!({"reason": "build-finished"}), None);
    }
}
