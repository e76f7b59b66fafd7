//! The program git, held as a tool is held: no configuration of anybody, no hooks, no helpers, one
//! transport, limits and a deadline, nothing to write but its own folder.

use std::fs;
use std::path::{Path, PathBuf};

use famulus_protocol::revision::BUNDLE_BYTES;
use famulus_runner_harness::supervisor::{
    Confinement, End, Job, MemoryWatch, Order, OutputLimits, Report, ResourceLimits, Supervisor,
};
use tokio_util::sync::CancellationToken;

use super::address::ResolvedRepository;
use super::credentials;
use crate::bundle::Failure;
use crate::settings::{BundleSettings, SYSTEM};
use famulus_runner_harness::termination::clean;

/// What a server may send at most: a pack is smaller than what is in it, and a repository has more
/// than a plugin.
pub(super) const FILE_BYTES: u64 = 4 * BUNDLE_BYTES;

/// The signal that ends who writes more into a file than it may.
const TOO_MUCH: i32 = 25;

/// What git may say.
const OUTPUT_BYTES: usize = 256 * 1024;

/// Bytes of what git says in a message for the owner.
const WORDS: usize = 600;

const PROCESSES: u32 = 16;
const GRACE_MILLIS: u64 = 1_000;

/// Settings that no repository and no server can change. What is not here is git's own.
const SETTINGS: [&str; 19] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.askPass=",
    "core.bigFileThreshold=8m",
    "core.symlinks=false",
    "credential.helper=",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",
    "fetch.fsckObjects=false",
    "gc.auto=0",
    "http.followRedirects=false",
    "maintenance.auto=false",
    "pack.threads=1",
    "protocol.allow=never",
    "protocol.ext.allow=never",
    "protocol.file.allow=never",
    "submodule.recurse=false",
    "transfer.bundleURI=false",
];

/// What git reads, and where it writes.
pub(super) struct Files<'a> {
    pub(super) input: &'a Path,
    pub(super) output: &'a Path,
    /// Bytes that it may write.
    pub(super) most: u64,
}

/// How long a run of git may take, and what it may write into a file.
#[derive(Clone, Copy)]
struct Limits {
    seconds: u64,
    file_bytes: u64,
}

impl Limits {
    fn of(seconds: u64) -> Self {
        Self { seconds, file_bytes: FILE_BYTES }
    }
}

/// Git in a folder of its own.
pub(super) struct Git {
    supervisor: Supervisor,
    folder: PathBuf,
    path: String,
    memory: Option<MemoryWatch>,
    own_user: bool,
    located: ResolvedRepository,
    /// The variables that lead to what is for its host.
    credentials: Vec<(String, String)>,
}

impl Git {
    pub(super) fn new(
        settings: &BundleSettings,
        located: ResolvedRepository,
    ) -> Result<Self, Failure> {
        let folder = settings.work.join("git");
        famulus_runner_harness::scratch::remove(&folder)
            .and_then(|()| fs::create_dir(&folder))
            .map_err(Failure::disk("the work folder"))?;
        let credentials = credentials::give(settings.credentials.as_deref(), &located, &folder)?;
        let supervisor = Supervisor::new().map_err(|error| Failure::build(error.to_string()))?;
        Ok(Self {
            supervisor,
            folder,
            path: settings.path.clone(),
            memory: MemoryWatch::find(&settings.cgroups),
            own_user: settings.own_user,
            located,
            credentials,
        })
    }

    pub(super) fn url(&self) -> String {
        self.located.url()
    }

    /// A file in git's folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs git. What it writes is the answer.
    pub(super) async fn run(&self, seconds: u64, arguments: &[&str]) -> Result<String, GitError> {
        let report = self.job(Limits::of(seconds), "exec \"$@\"", arguments).await?;
        Ok(report.stdout.text)
    }

    /// Runs git with a file as its input and another for what it writes, byte for byte. It ends when it writes
    /// more than it may.
    pub(super) async fn run_files(
        &self,
        seconds: u64,
        files: &Files<'_>,
        arguments: &[&str],
    ) -> Result<(), GitError> {
        let quote = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
        let script = format!("exec \"$@\" <{} >{}", quote(files.input), quote(files.output));
        let limits = Limits { seconds, file_bytes: files.most };
        self.job(limits, &script, arguments).await.map(drop)
    }

    /// Where the server sends on to, if it does. Git follows nobody, and tells it in its trace alone.
    pub(super) async fn redirect(&self, seconds: u64) -> Option<String> {
        if ["git", "ssh"].contains(&self.located.repository.scheme) {
            return None;
        }
        let script = "export GIT_TRACE_CURL=1 GIT_TRACE_CURL_NO_DATA=1; exec \"$@\"";
        let arguments = ["ls-remote", "--quiet", "--", &self.url(), "HEAD"];
        let report = self.report(Limits::of(seconds), script, &arguments).await.ok()?;
        location(&report.stderr.text).filter(|_| report.end != End::Exited(0))
    }

    async fn job(
        &self,
        limits: Limits,
        script: &str,
        arguments: &[&str],
    ) -> Result<Report, GitError> {
        let report = self.report(limits, script, arguments).await?;
        if report.end == End::Exited(0) && report.stdout.cut == 0 {
            return Ok(report);
        }
        let words = clean(&report.stderr.text, WORDS);
        Err(GitError { end: Some(report.end), words })
    }

    async fn report(
        &self,
        limits: Limits,
        script: &str,
        arguments: &[&str],
    ) -> Result<Report, GitError> {
        let mut all = vec!["-c".to_owned(), script.to_owned(), "git".to_owned(), "git".to_owned()];
        for setting in SETTINGS {
            all.extend(["-c".to_owned(), setting.to_owned()]);
        }
        let resolution = self.located.resolution();
        all.extend(["-c".to_owned(), format!("http.curloptResolve={resolution}")]);
        all.extend(arguments.iter().map(ToString::to_string));
        let job = Job {
            order: Order {
                program: PathBuf::from("/bin/sh"),
                arguments: all,
                folder: self.folder.clone(),
                confinement: Confinement {
                    read: SYSTEM.iter().map(PathBuf::from).collect(),
                    write: vec![self.folder.clone()],
                },
                limits: ResourceLimits {
                    user_threads: self.own_user.then_some(256),
                    descriptors: 256,
                    file_bytes: limits.file_bytes,
                },
            },
            environment: self.environment(),
            input: String::new(),
            deadline_millis: limits.seconds * 1000,
            grace_millis: GRACE_MILLIS,
            output: OutputLimits { stdout_bytes: OUTPUT_BYTES, stderr_bytes: OUTPUT_BYTES },
            processes: PROCESSES,
            memory: self.memory.clone(),
        };
        let ran = self.supervisor.run(&job, |_said| {}, &CancellationToken::new()).await;
        ran.map_err(|error| GitError { end: None, words: error.to_string() })
    }

    fn environment(&self) -> Vec<(String, String)> {
        let folder = self.folder.to_string_lossy().into_owned();
        [
            ("PATH", self.path.clone()),
            ("HOME", folder.clone()),
            ("TMPDIR", folder),
            ("LC_ALL", "C".to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
            ("GIT_ATTR_NOSYSTEM", "1".to_owned()),
            ("GIT_TERMINAL_PROMPT", "0".to_owned()),
            // It counts more than any setting, also of a redirect or a server's suggestion.
            ("GIT_ALLOW_PROTOCOL", self.located.repository.scheme.to_owned()),
            ("GIT_OVERRIDE_VIRTUAL_HOST", self.located.virtual_host()),
            ("GIT_HTTP_LOW_SPEED_LIMIT", "1000".to_owned()),
            ("GIT_HTTP_LOW_SPEED_TIME", "20".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .chain(self.credentials.iter().cloned())
        .collect()
    }
}

/// Where the last answer in a trace of git sends on to.
fn location(trace: &str) -> Option<String> {
    let headers = trace.lines().filter_map(|line| line.split_once("<= Recv header: "));
    let (mut sends_on, mut location) = (false, None);
    for (_, header) in headers {
        if header.starts_with("HTTP/") {
            let status = header.split(' ').nth(1).unwrap_or_default();
            (sends_on, location) = (["301", "302", "303", "307", "308"].contains(&status), None);
        } else if let Some((name, value)) = header.split_once(':')
            && sends_on
            && name.eq_ignore_ascii_case("location")
        {
            location = Some(value.trim().to_owned());
        }
    }
    location
}

/// How a run of git ended that was no success, and what git said.
#[derive(Debug)]
pub(super) struct GitError {
    end: Option<End>,
    words: String,
}

impl GitError {
    pub(super) fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.words.contains(word))
    }

    /// It wrote more than it may.
    pub(super) fn is_too_much(&self) -> bool {
        self.end == Some(End::Signalled(TOO_MUCH))
    }

    /// For the owner.
    pub(super) fn words(&self) -> String {
        let why = match &self.end {
            Some(End::Deadline) => "git was not done in time",
            Some(End::Memory) => "git needed more memory than there is",
            Some(End::Signalled(TOO_MUCH)) => "git fetched or wrote more than it may",
            Some(End::Exited(_)) if !self.words.is_empty() => return self.words.clone(),
            Some(End::Exited(0)) => "git wrote more than is read",
            Some(
                End::Exited(_)
                | End::Signalled(_)
                | End::Cancelled
                | End::Processes(_)
                | End::NotStarted(_),
            )
            | None => "git could not do it",
        };
        if self.words.is_empty() { why.to_owned() } else { format!("{why}: {}", self.words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_tells_where_to_go() {
        let check = |headers: &[&str], expected: Option<&str>| {
            let lines = headers.iter().map(|header| {
                format!("10:00:00.000001 http.c:702              <= Recv header: {header}\n")
            });
            let trace = lines.collect::<String>();
            assert_eq!(location(&trace).as_deref(), expected, "{trace}");
        };
        check(&["HTTP/1.1 302 Found", "Location: /x", "content-length: 0"], Some("/x"));
        check(&["HTTP/2 301", "location: https://b/x"], Some("https://b/x"));
        check(&["HTTP/1.1 200 OK", "location: /x"], None);
        check(&["HTTP/1.1 302 Found", "location: /x", "HTTP/1.1 404 Not Found"], None);
        check(&["HTTP/1.1 302 Found"], None);
        check(&[], None);
    }
}
