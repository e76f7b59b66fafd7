//! Where things that were fetched once are kept, shared by those who fetch and those who look.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder for fetched things, given a way to read the environment.
///
/// `FAMULUS_CACHE` names it outright. Else it is `famulus` below `XDG_CACHE_HOME` or `~/.cache`,
/// and for root `/var/cache/famulus`: the home of root is closed to the unprivileged user under
/// which the private Postgres runs.
pub fn folder(var: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    folder_for(var, rustix::process::geteuid().is_root())
}

fn folder_for(var: impl Fn(&str) -> Option<OsString>, root: bool) -> PathBuf {
    let set = |name| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(chosen) = set("FAMULUS_CACHE") {
        return chosen;
    }
    if root {
        return PathBuf::from("/var/cache/famulus");
    }
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(|| PathBuf::from("/var/cache")).join("famulus")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides_and_root_stays_out_of_its_home() {
        let all = [("FAMULUS_CACHE", "/c"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/home/ada")];
        let check = |skip: usize, root, expected: &str| {
            let var = |name: &str| {
                let found = all[skip..].iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(folder_for(var, root), PathBuf::from(expected));
        };
        check(0, false, "/c");
        check(0, true, "/c");
        check(1, false, "/x/famulus");
        check(1, true, "/var/cache/famulus");
        check(2, false, "/home/ada/.cache/famulus");
        check(3, false, "/var/cache/famulus");
    }
}
