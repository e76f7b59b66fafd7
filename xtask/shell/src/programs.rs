//! Programs that the tasks need from the machine.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::lock;
use crate::shell::Shell;
use crate::workspace::cache;

/// A program, how to see that it works, and the Debian packages that bring it.
pub struct Program {
    pub name: &'static str,
    pub probe: &'static [&'static str],
    pub packages: &'static [&'static str],
}

/// What building, and fetching a Postgres, needs.
pub const BUILD: [Program; 2] = [
    Program {
        name: "pip for python3",
        probe: &["python3", "-m", "pip", "--version"],
        packages: &["python3", "python3-pip"],
    },
    Program { name: "a C compiler", probe: &["cc", "--version"], packages: &["build-essential"] },
];

/// What the tests of plugins need: repositories are served and fetched, over ssh too, one plugin is Node's, and
/// networks are made.
pub const PLUGINS: [Program; 5] = [
    Program { name: "git", probe: &["git", "--version"], packages: &["git"] },
    Program { name: "npm", probe: &["npm", "--version"], packages: &["nodejs", "npm"] },
    Program { name: "ip", probe: &["ip", "-V"], packages: &["iproute2"] },
    SSH,
    SSH_SERVER,
];

pub const SSH: Program =
    Program { name: "ssh", probe: &["ssh", "-V"], packages: &["openssh-client"] };

/// Without a service of the system's, which would start.
pub const SSH_SERVER: Program =
    Program { name: "dropbear", probe: &["/usr/sbin/dropbear", "-V"], packages: &["dropbear-bin"] };

/// Makes sure that all of `programs` are there. As root on a Debian-like machine the missing ones are
/// installed; anybody else is told the one command that does it.
pub async fn ensure(shell: &mut Shell, programs: &[Program]) -> Result<()> {
    let Some(Missing { names, packages }) = Missing::of(programs) else { return Ok(()) };
    let install = ["apt-get", "install", "--yes", "--no-install-recommends"];
    let debian = Path::new("/usr/bin/apt-get").exists();
    if !debian {
        bail!(
            "{names} is missing; install it with this machine's package manager (on Debian the \
             packages are called {})",
            packages.join(" ")
        );
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "{names} is missing; install it with:\n  sudo {} {}",
            install.join(" "),
            packages.join(" ")
        );
    }
    // Whoever finds another at work ends with an error, whatever it wants.
    let _lock = lock::take(shell, &cache().join("packages.lock"), "installs packages").await?;
    let Some(Missing { names, packages }) = Missing::of(programs) else { return Ok(()) };
    eprintln!("{names} is missing: installing it");
    let mut update = Command::new("apt-get");
    update.arg("update").env("DEBIAN_FRONTEND", "noninteractive");
    shell.run(update).await?;
    let mut command = Command::new(install[0]);
    // Somebody else's, as the machine's own updates.
    command.args(["-o", "DPkg::Lock::Timeout=600"]);
    command.args(&install[1..]).args(&packages).env("DEBIAN_FRONTEND", "noninteractive");
    shell.run(command).await
}

/// What does not work yet.
struct Missing {
    names: String,
    packages: Vec<&'static str>,
}

impl Missing {
    fn of(programs: &[Program]) -> Option<Self> {
        let missing: Vec<&Program> = programs.iter().filter(|program| !program.works()).collect();
        let names = missing.iter().map(|program| program.name).collect::<Vec<_>>().join(" and ");
        let packages = missing.iter().flat_map(|program| program.packages).copied().collect();
        (!missing.is_empty()).then_some(Self { names, packages })
    }
}

impl Program {
    fn works(&self) -> bool {
        let quiet = || Stdio::null();
        Command::new(self.probe[0])
            .args(&self.probe[1..])
            .stdin(quiet())
            .stdout(quiet())
            .stderr(quiet())
            .status()
            .is_ok_and(|status| status.success())
    }
}
