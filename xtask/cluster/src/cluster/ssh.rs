//! The private repositories of the "internet": over ssh, for who has the key.
//!
//! The folder `internet/ssh` holds what its owner has, `owner` and `known_hosts`. Below `home` are repositories: Pods
//! find `home/NAME.git` as `root@git.example:NAME.git`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use anyhow::{Context as _, Result};
use xtask_shell::output_of;

use super::internet::{self, GIT};
use super::place::Place;
use super::processes::Process;

const FOLDER: &str = "internet/ssh";

/// Whoever signs in is root, with this home; the machine's own stays where it is for everybody else.
const SERVE: &str =
    r#"mount --bind "$1" /root && exec /usr/sbin/dropbear -F -E -s -p "$2:22" -r /root/.ssh/host"#;

/// Makes the keys of the host and of who may come.
pub(super) fn prepare(place: &Place) -> Result<()> {
    let folder = place.make_folder(FOLDER)?;
    let own = place.make_folder(&format!("{FOLDER}/home/.ssh"))?;
    let mut owner = Command::new("ssh-keygen");
    owner.args(["-q", "-t", "ed25519", "-N", "", "-C", "owner", "-f"]).arg(folder.join("owner"));
    output_of(&mut owner)?;
    fs::copy(folder.join("owner.pub"), own.join("authorized_keys"))?;
    let mut host = Command::new("dropbearkey");
    host.args(["-t", "ed25519", "-f"]).arg(own.join("host"));
    let said = String::from_utf8(output_of(&mut host)?)?;
    let key = said.lines().find_map(|line| line.strip_prefix("ssh-ed25519 "));
    let key = key.and_then(|key| key.split(' ').next()).context("dropbearkey tells no key")?;
    fs::write(folder.join("known_hosts"), format!("{} ssh-ed25519 {key}\n", GIT.name))?;
    // A home that others could write to is not believed.
    fs::set_permissions(own, Permissions::from_mode(0o700))?;
    Ok(())
}

pub(super) fn server(place: &Place) -> Process {
    let home = place.text(&format!("{FOLDER}/home"));
    let words = ["unshare", "--mount", "sh", "-c", SERVE, "sh", &home, GIT.address];
    internet::server("internet-ssh", &words)
}
