//! The user under which the server runs. Postgres refuses root.

use std::fs::{self, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::PostgresError;

/// Tried in this order when the process is root and no data exist yet.
const UNPRIVILEGED: [&str; 3] = ["famulus", "postgres", "nobody"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) name: String,
    /// The process is root and drops to this user in the child.
    drops: bool,
}

impl Account {
    /// Ourselves, or for root the owner of the data at `pgdata`, or else the first unprivileged
    /// user that exists.
    pub(super) fn choose(pgdata: &Path) -> Result<Self, PostgresError> {
        let owner = fs::metadata(pgdata).ok().map(|data| (data.uid(), data.gid()));
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::choose_from(own, owner, &passwd, pgdata)
    }

    /// Whoever runs this process: its clients are run by nobody else.
    pub(super) fn ourselves() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        Self { uid, gid, name: uid.to_string(), drops: false }
    }

    fn choose_from(
        own: (u32, u32),
        owner: Option<(u32, u32)>,
        passwd: &str,
        pgdata: &Path,
    ) -> Result<Self, PostgresError> {
        let drops = own.0 == 0;
        let named = |uid: u32| {
            let entry = users(passwd).find(|(_, id, _)| *id == uid);
            entry.map_or_else(|| uid.to_string(), |(name, _, _)| name.to_owned())
        };
        match owner {
            Some((uid, gid)) if drops && uid != 0 => Ok(Self { uid, gid, name: named(uid), drops }),
            Some((owner, _)) if !drops && owner != own.0 => {
                Err(PostgresError::Owner { path: pgdata.to_owned(), owner, user: own.0 })
            }
            _ if !drops => Ok(Self { uid: own.0, gid: own.1, name: named(own.0), drops }),
            _ => UNPRIVILEGED
                .iter()
                .find_map(|wanted| users(passwd).find(|(name, _, _)| name == wanted))
                .map(|(name, uid, gid)| Self { uid, gid, name: name.to_owned(), drops })
                .ok_or(PostgresError::NoUnprivilegedUser),
        }
    }

    /// Makes `command` run as this user, in a folder that everybody can enter.
    pub(super) fn apply(&self, command: &mut Command) {
        command.current_dir("/").env_clear().env("LC_ALL", "C.UTF-8").env("PATH", "/usr/bin:/bin");
        if self.drops {
            command.uid(self.uid).gid(self.gid);
        }
    }

    /// Makes a folder for this user alone, or takes over one that exists.
    pub(super) fn own_folder(&self, path: &Path) -> Result<(), PostgresError> {
        if !path.is_dir() {
            let made = fs::DirBuilder::new().mode(0o700).create(path);
            made.map_err(PostgresError::io("create the folder", path))?;
        }
        let found = fs::symlink_metadata(path).map_err(PostgresError::io("look at", path))?;
        let ours = found.uid() == self.uid || (self.drops && found.uid() == 0);
        if !found.is_dir() || !ours {
            let (owner, user) = (found.uid(), self.uid);
            return Err(PostgresError::Owner { path: path.to_owned(), owner, user });
        }
        if self.drops {
            chown(path, Some(self.uid), Some(self.gid))
                .map_err(PostgresError::io("give to its unprivileged user the folder", path))?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .map_err(PostgresError::io("set the permissions of", path))
    }

    /// Checks that this user can walk down to `path`; the path itself need not exist.
    pub(super) fn check_reach(&self, path: &Path) -> Result<(), PostgresError> {
        match self.blocked_at(path) {
            None => Ok(()),
            Some(blocked_at) => Err(PostgresError::Unreachable {
                path: path.to_owned(),
                blocked_at,
                user: self.name.clone(),
            }),
        }
    }

    /// The topmost folder on the way to `path` that this user may not enter.
    pub(super) fn blocked_at(&self, path: &Path) -> Option<PathBuf> {
        let way: Vec<&Path> = path.ancestors().skip(1).collect();
        way.into_iter()
            .rev()
            .find(|folder| fs::metadata(folder).is_ok_and(|found| !self.may_enter(&found)))
            .map(Path::to_owned)
    }

    fn may_enter(&self, folder: &Metadata) -> bool {
        let bit = if folder.uid() == self.uid {
            0o100
        } else if folder.gid() == self.gid {
            0o010
        } else {
            0o001
        };
        !self.drops || folder.mode() & bit != 0
    }
}

fn users(passwd: &str) -> impl Iterator<Item = (&str, u32, u32)> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        Some((name, uid.parse().ok()?, gid.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nada:x:1000:1001::/home/ada:/bin/sh\n\
                          nobody:x:65534:65534::/:/bin/false\npostgres:x:70:71::/:/bin/sh\n";

    #[test]
    fn root_drops_and_others_stay_themselves() {
        let check = |own, owner, passwd| {
            Account::choose_from(own, owner, passwd, Path::new("/data"))
                .map(|account| (account.name, account.uid, account.gid))
                .map_err(|error| error.to_string())
        };
        let user = |name: &str, uid, gid| Ok((name.to_owned(), uid, gid));
        assert_eq!(check((0, 0), None, PASSWD), user("postgres", 70, 71));
        assert_eq!(check((0, 0), Some((0, 0)), PASSWD), user("postgres", 70, 71));
        assert_eq!(check((0, 0), Some((1000, 1001)), PASSWD), user("ada", 1000, 1001));
        assert_eq!(check((0, 0), Some((7, 8)), PASSWD), user("7", 7, 8));
        assert_eq!(check((1000, 1001), None, PASSWD), user("ada", 1000, 1001));
        assert_eq!(check((1000, 1001), Some((1000, 5)), PASSWD), user("ada", 1000, 1001));
        let refused = check((1000, 1001), Some((70, 71)), PASSWD).unwrap_err();
        assert!(refused.contains("belongs to user id 70"), "{refused}");
        let refused = check((0, 0), None, "root:x:0:0::/root:/bin/sh").unwrap_err();
        assert!(refused.contains("useradd"), "{refused}");
    }
}
