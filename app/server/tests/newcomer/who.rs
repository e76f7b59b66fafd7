//! Whose the assistant is: root's, or that of an ordinary user, with programs and data where that user reaches them.

use crate::up::{Place, famulus};
use rustix::{
    fs::{CWD, FileType, Mode, makedev, mknodat},
    process::geteuid,
};
use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Root,
    Ordinary,
}

/// Users that nobody has. Each place has one of its own: the kernel counts the processes of a user.
static NEXT: AtomicU32 = AtomicU32::new(1_200_000);

/// Shows a program a list of users in which there is one more, and the device for interfaces as most systems have
/// it, for everybody; and has it be that user.
const BECOME: &str = r#"mount --bind "$1/passwd" /etc/passwd &&
    if test -e /dev/net/tun; then mount --bind "$1/tun" /dev/net/tun; fi &&
    user="$2" && shift 2 &&
    exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@""#;

impl Who {
    /// All that these tests can be.
    pub(crate) fn all() -> Vec<Self> {
        if geteuid().is_root() { vec![Self::Root, Self::Ordinary] } else { vec![Self::Ordinary] }
    }

    /// Whether it is somebody else than who runs the tests.
    fn is_other(self) -> bool {
        self == Self::Ordinary && geteuid().is_root()
    }

    pub(crate) fn place(self, name: &str) -> Place {
        let place = Place::new(&format!("{name}-{self:?}"));
        let built = Path::new(env!("CARGO_BIN_EXE_famulus"));
        for name in ["famulus", "famulus-runner"] {
            fs::copy(built.with_file_name(name), place.0.join(name)).unwrap();
        }
        if self.is_other() {
            let (user, home) = (NEXT.fetch_add(1, Ordering::Relaxed), place.0.display());
            let known = fs::read_to_string("/etc/passwd").unwrap();
            let known = format!("{known}ordinary:x:{user}:{user}::{home}:/bin/sh\n");
            fs::write(place.0.join("passwd"), known).unwrap();
            let (tun, mode) = (place.0.join("tun"), Mode::from_raw_mode(0o666));
            mknodat(CWD, &tun, FileType::CharacterDevice, mode, makedev(10, 200)).unwrap();
            fs::set_permissions(tun, fs::Permissions::from_mode(0o666)).unwrap();
            chown(&place.0, Some(user), Some(user)).unwrap();
        }
        place
    }

    /// The number of the user whose the place is.
    pub(crate) fn user(place: &Place) -> u32 {
        fs::metadata(&place.0).unwrap().uid()
    }

    /// `famulus` with these words, as this user starts it.
    pub(crate) fn famulus(self, place: &Place, words: &[&str]) -> Command {
        let mut command = self.runs(place, place.0.join("famulus"));
        command.args(words);
        command
    }

    /// A program as this user starts it, with what `famulus` is to find in its environment.
    pub(crate) fn runs(self, place: &Place, program: impl AsRef<OsStr>) -> Command {
        let mut command = if self.is_other() {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", BECOME, "sh"]).arg(&place.0);
            command.arg(Self::user(place).to_string()).arg(program);
            command
        } else {
            Command::new(program)
        };
        for (name, value) in famulus(&place.data()).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        // Postgres is where these tests have it.
        let cache = famulus_local::cache::folder(|name| std::env::var_os(name));
        command.env("HOME", &place.0).env("FAMULUS_CACHE", cache).stdin(Stdio::null());
        command
    }
}
