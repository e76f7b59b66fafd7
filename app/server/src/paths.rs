//! Where an installation keeps its things on this machine.

use std::{ffi::OsString, path::PathBuf};

/// Folders and files, decided once from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    pub data_dir: PathBuf,
    /// Read when it exists and no other is named.
    pub config: PathBuf,
}

impl Paths {
    /// As root below `/var/lib` and `/etc`; for everybody else in their home.
    pub fn find(var: impl Fn(&str) -> Option<OsString>, root: bool) -> Self {
        if root {
            return Self {
                data_dir: PathBuf::from("/var/lib/famulus"),
                config: PathBuf::from("/etc/famulus/config.toml"),
            };
        }
        let set = |name| var(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = set("HOME").unwrap_or_else(|| PathBuf::from("/"));
        let data = set("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"));
        let config = set("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        Self { data_dir: data.join("famulus"), config: config.join("famulus/config.toml") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_uses_system_folders_and_others_their_home() {
        let var = |name: &str| (name == "HOME").then(|| OsString::from("/home/ada"));
        let ada = Paths::find(var, false);
        assert_eq!(ada.data_dir, PathBuf::from("/home/ada/.local/share/famulus"));
        assert_eq!(ada.config, PathBuf::from("/home/ada/.config/famulus/config.toml"));
        assert_eq!(Paths::find(var, true).data_dir, PathBuf::from("/var/lib/famulus"));
    }
}
