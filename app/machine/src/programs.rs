//! The programs that the entrypoints of a plugin begin with, and whether its sandboxes have them.
//!
//! Sandboxes see the system's programs. `uv`, which few systems have, is shown to them by whoever finds or
//! fetches it. What is missing is said before anything of the plugin runs, with the package that has it.
//!
//! Refuses to know what a program of a plugin executes in its turn.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use famulus_protocol::revision::{BUNDLE_BYTES, BuildFailure};
use rustix::fs::OFlags;
use serde_json::Value;
use tar::Archive;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::error::{MachineError, StepError};
use crate::folders::PluginFolders;
use crate::machine::Machine;
use crate::order::{Purpose, SYSTEM_PATH};

/// Who has `uv`.
#[async_trait]
pub trait Uv: fmt::Debug + Send + Sync + 'static {
    /// The program, where it is on this machine already.
    async fn at_hand(&self) -> Option<PathBuf>;

    /// The program, fetched where it is not there.
    ///
    /// # Errors
    /// It cannot be had: why, and what to do about it, for the owner.
    async fn obtain(&self) -> Result<PathBuf, String>;
}

/// The step before leaves the bundle under this name.
const BUNDLE: &str = "bundle.tar";

const UV: &str = "uv";

/// The line with which a script begins to name packages that `uv` fetches.
const PACKAGES: &str = "# /// script";

/// Bytes of a manifest, and of an entrypoint, that are read.
const MANIFEST: u64 = 256 * 1024;
const HEAD: u64 = 64 * 1024;

/// Entrypoints that are named for one program.
const NAMED: usize = 3;

/// Folders of which sandboxes see everything.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Debian's packages of programs that are called otherwise.
const DEBIAN: [(&str, &str); 9] = [
    ("node", "nodejs"),
    ("npx", "npm"),
    ("python", "python-is-python3"),
    ("cc", "build-essential"),
    ("gcc", "build-essential"),
    ("make", "build-essential"),
    ("php", "php-cli"),
    ("Rscript", "r-base-core"),
    ("sh", "dash"),
];

/// Which entrypoints begin with which program.
type Needs = BTreeMap<String, Vec<String>>;

impl Machine {
    /// Sees to it that sandboxes of the plugin have what its entrypoints begin with.
    pub(crate) async fn provide(
        &self,
        uid: &str,
        folders: &PluginFolders,
        ended: &CancellationToken,
    ) -> Result<(), StepError> {
        let bundle = folders.work().join(BUNDLE);
        let read = spawn_blocking(move || open(&bundle).and_then(needs)).await;
        let mut needs = match read.map_err(io::Error::other).flatten() {
            Ok(needs) => needs,
            Err(error) => {
                // The build reads it as well, and refuses it in its own words.
                tracing::debug!(%error, "what a plugin needs cannot be read");
                return Ok(());
            }
        };
        let mut missing = Vec::new();
        if let Some(uv) = &self.settings.uv
            && let Some(files) = needs.remove(UV)
        {
            self.note(uid, Some("uv is found or fetched"));
            let had = tokio::select! {
                had = uv.obtain() => had,
                () = ended.cancelled() => return Err(MachineError::Gone.into()),
            };
            missing.extend(had.err().map(|why| format!("{} by uv: {why}", run(&files))));
        }
        let lacks = |program: &String| !self.is_seen(program);
        let lacking = needs.iter().filter(|(program, _)| lacks(program));
        missing.extend(lacking.map(|(program, files)| words(program, files)));
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!("{}. Then permit the plugin again", missing.join("; "));
        Err(StepError::Failed(BuildFailure { reason: "ProgramMissing".to_owned(), message }))
    }

    /// The `uv` that a sandbox for this purpose is shown.
    pub(crate) async fn shown_uv(&self, purpose: Purpose) -> Option<PathBuf> {
        match (purpose, &self.settings.uv) {
            (Purpose::Build | Purpose::Serve, Some(uv)) => uv.at_hand().await,
            (Purpose::Build | Purpose::Serve, None)
            | (
                Purpose::Bundle | Purpose::Fetch | Purpose::Check | Purpose::Give | Purpose::Take,
                _,
            ) => None,
        }
    }

    /// Whether a sandbox finds the program.
    fn is_seen(&self, program: &str) -> bool {
        let given = self.settings.programs.as_ref().map(|folder| folder.join(program));
        given.is_some_and(|path| path.is_file()) || is_of_the_system(program)
    }
}

fn is_of_the_system(program: &str) -> bool {
    let is_shown = |path: &Path| SYSTEM.iter().any(|system| path.starts_with(system));
    // What leads out of what is shown leads nowhere in a sandbox.
    let is_there = |path: &Path| {
        is_shown(path) && fs::canonicalize(path).is_ok_and(|real| real.is_file() && is_shown(&real))
    };
    if program.starts_with('/') {
        return is_there(Path::new(program));
    }
    SYSTEM_PATH.split(':').any(|folder| is_there(&Path::new(folder).join(program)))
}

/// What is missing, and what to do about it.
fn words(program: &str, files: &[String]) -> String {
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program);
    let known = DEBIAN.iter().find(|(of, _)| *of == name);
    let package = known.map_or(name, |(_, package)| package);
    format!(
        "{} by {program}, which sandboxes of this machine do not have: install it as a program of the system \
         (on Debian: `apt-get install {package}`)",
        run(files)
    )
}

fn run(files: &[String]) -> String {
    let named = files.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = files.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{named}{more} {} run", if files.len() == 1 { "is" } else { "are" })
}

/// The bundle, which the plugin's user could have made into anything.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.len() <= BUNDLE_BYTES {
        return Ok(file);
    }
    Err(io::Error::other("it is no bundle"))
}

/// Nothing is unpacked: of manifests and scripts the beginnings are read.
fn needs(bundle: impl Read) -> io::Result<Needs> {
    let (mut entrypoints, mut programs) = (Vec::new(), BTreeMap::new());
    for entry in Archive::new(bundle).entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut text = Vec::new();
        if path == "manifest.json" || path.ends_with("/manifest.json") {
            entry.take(MANIFEST).read_to_end(&mut text)?;
            entrypoints.extend(entrypoint(&path, &text));
            continue;
        }
        entry.by_ref().take(2).read_to_end(&mut text)?;
        if text == b"#!" {
            entry.take(HEAD).read_to_end(&mut text)?;
            programs.insert(path, head(&String::from_utf8_lossy(&text)));
        }
    }
    let mut needs = Needs::new();
    for entrypoint in entrypoints {
        for program in programs.remove(&entrypoint).unwrap_or_default() {
            needs.entry(program).or_default().push(entrypoint.clone());
        }
    }
    Ok(needs)
}

/// What a manifest says is executed, by its path in the plugin. It was validated by the step before.
fn entrypoint(path: &str, text: &[u8]) -> Option<String> {
    let manifest: Value = serde_json::from_slice(text).ok()?;
    let (folder, named) = match path.rsplit_once('/') {
        Some((folder, _)) => (format!("{folder}/"), manifest.get("entrypoint")),
        None => (String::new(), manifest.get("init")?.get("entrypoint")),
    };
    let named = named?.as_str()?;
    Some(format!("{folder}{}", named.strip_prefix("./").unwrap_or(named)))
}

/// The programs without which a script cannot be run. Those of the plugin itself are its own affair.
fn head(text: &str) -> Vec<String> {
    let first = text.lines().next().unwrap_or_default();
    let mut words = first.trim_start_matches("#!").split_whitespace();
    let mut program = words.next();
    if program.is_some_and(|program| program.ends_with("/env")) {
        program = words.find(|word| !word.starts_with('-') && !word.contains('='));
    }
    let is_foreign = |program: &&str| match program.strip_prefix('/') {
        Some(rest) => !rest.starts_with("plugins/") && !rest.starts_with("state/"),
        None => !program.contains('/'),
    };
    let mut programs: Vec<String> =
        program.filter(is_foreign).map(str::to_owned).into_iter().collect();
    if text.lines().any(|line| line.trim_end() == PACKAGES) && !programs.contains(&UV.to_owned()) {
        programs.push(UV.to_owned());
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_names_the_program() {
        let check = |text: &str, expected: &[&str]| assert_eq!(head(text), expected, "{text}");
        check("#!/usr/bin/env node\nx", &["node"]);
        check("#!/usr/bin/node", &["/usr/bin/node"]);
        check("#! /usr/bin/env -S A=b deno run --quiet\n", &["deno"]);
        check("#!/usr/bin/env -S uv run --script\n# /// script\n# ///\n", &["uv"]);
        check("#!/usr/bin/env python3\n# /// script\n# ///\n", &["python3", "uv"]);
        check("#!/usr/bin/env python3\nprint('# /// script')\n", &["python3"]);
        check("#!/plugins/p/venv/bin/python\n", &[]);
        check("#!venv/bin/python\n", &[]);
        check("#!\n", &[]);
    }

    #[test]
    fn only_what_is_executed_is_looked_at() {
        let mut bundle = tar::Builder::new(Vec::new());
        let files = [
            ("init.sh", "#!/bin/sh\n"),
            ("lib/old.rb", "#!/usr/bin/env ruby\n"),
            ("look/main.js", "#!/usr/bin/env node\n"),
            ("look/manifest.json", r#"{"entrypoint": "./main.js"}"#),
            ("manifest.json", r#"{"init": {"entrypoint": "init.sh"}}"#),
            ("none/manifest.json", r#"{"entrypoint": "made-by-init"}"#),
            ("see/main.js", "#!/usr/bin/env node\n"),
            ("see/manifest.json", r#"{"entrypoint": "main.js"}"#),
        ];
        for (path, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            bundle.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        let found = needs(&bundle.into_inner().unwrap()[..]).unwrap();
        let node = vec!["look/main.js".to_owned(), "see/main.js".to_owned()];
        let sh = vec!["init.sh".to_owned()];
        assert_eq!(found, Needs::from([("/bin/sh".to_owned(), sh), ("node".to_owned(), node)]));
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let files = ["a/run", "b/run", "c/run", "d/run"].map(str::to_owned).to_vec();
        let said = words("/usr/bin/node", &files);
        assert!(said.contains("a/run, b/run, c/run and 1 more are run by /usr/bin/node"), "{said}");
        assert!(said.contains("apt-get install nodejs"), "{said}");
        let said = words("jq", &["a/run".to_owned()]);
        assert!(said.contains("a/run is run by jq") && said.contains("install jq"), "{said}");
        assert!(is_of_the_system("sh") && is_of_the_system("/bin/sh"));
        assert!(!is_of_the_system("no-such-program") && !is_of_the_system("/opt/no/such"));
    }
}
