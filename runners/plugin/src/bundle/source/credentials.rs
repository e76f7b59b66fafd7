//! The owner's credentials for private repositories. Git is given what is for the host that it asks, and only over
//! transports that say who the host is. It lies in git's own folder, which no code of a plugin ever sees, and goes
//! with it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::address::ResolvedRepository;
use crate::bundle::Failure;

/// Names and passwords, or tokens, of hosts.
const NETRC: &str = "netrc";
/// The private key of ssh, as Kubernetes calls it in its own Secrets.
const KEY: &str = "ssh-privatekey";
/// The keys by which hosts of ssh are known.
const KNOWN_HOSTS: &str = "known_hosts";
/// Who may vouch for hosts of https, beside those whom the system believes.
const AUTHORITIES: &str = "ca.crt";

/// Where systems keep whom they believe.
const BELIEVED: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// A file is a few keys.
const MOST: u64 = 1 << 20;

/// Nothing that a host, a user or a folder of a machine could say.
const SSH: [&str; 12] = [
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "GlobalKnownHostsFile=none",
    "UpdateHostKeys=no",
    "CheckHostIP=no",
    "PreferredAuthentications=publickey",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "ForwardAgent=no",
    "ProxyCommand=none",
    "ConnectTimeout=20",
    "LogLevel=ERROR",
];

/// Puts what is for this host into the folder of git. The variables that lead there.
pub(super) fn give(
    from: Option<&Path>,
    located: &ResolvedRepository,
    folder: &Path,
) -> Result<Vec<(String, String)>, Failure> {
    match located.repository.scheme {
        "https" => from.map_or(Ok(Vec::new()), |from| for_https(from, located, folder)),
        "ssh" => for_ssh(from, located, folder),
        _ => Ok(Vec::new()),
    }
}

/// Git looks for `.netrc` in its home, which is its folder.
fn for_https(
    from: &Path,
    located: &ResolvedRepository,
    folder: &Path,
) -> Result<Vec<(String, String)>, Failure> {
    if let Some(all) = read(&from.join(NETRC))?
        && let Some(own) = of_host(&String::from_utf8_lossy(&all), &located.repository.host)
    {
        write(&folder.join(".netrc"), own.as_bytes())?;
    }
    let Some(own) = read(&from.join(AUTHORITIES))? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for path in BELIEVED {
        if let Some(believed) = read(Path::new(path))? {
            all = believed;
            break;
        }
    }
    all.push(b'\n');
    all.extend(own);
    let path = folder.join("authorities");
    write(&path, &all)?;
    Ok(vec![("GIT_SSL_CAINFO".to_owned(), path.to_string_lossy().into_owned())])
}

fn for_ssh(
    from: Option<&Path>,
    located: &ResolvedRepository,
    folder: &Path,
) -> Result<Vec<(String, String)>, Failure> {
    let host = &located.repository.host;
    let missing = |name: &str| {
        Failure::unreachable(format!(
            "{host} is asked over ssh, and there is no `{name}` for it; put `{KEY}` and `{KNOWN_HOSTS}` into the \
             folder that `plugins.repositories.credentials` names, in a cluster into the Secret of \
             `plugins.repositories.existingSecret`, or give the address over https"
        ))
    };
    let mut paths = Vec::new();
    for name in [KEY, KNOWN_HOSTS] {
        let content = from.map_or(Ok(None), |from| read(&from.join(name)))?;
        let mut content = content.ok_or_else(|| missing(name))?;
        // A key without its last line break is none.
        if content.last() != Some(&b'\n') {
            content.push(b'\n');
        }
        let path = folder.join(name);
        write(&path, &content)?;
        paths.push(path);
    }
    let quote = |path: &PathBuf| format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
    let [key, known] = [quote(&paths[0]), quote(&paths[1])];
    let mut words = vec![format!("ssh -F none -i {key} -o UserKnownHostsFile={known}")];
    let name = located.known_as();
    let own = [format!("HostName={}", located.address), format!("HostKeyAlias={name}")];
    let options = SSH.iter().map(ToString::to_string).chain(own);
    words.extend(options.map(|option| format!("-o '{option}'")));
    let variables = [("GIT_SSH_COMMAND", words.join(" ")), ("GIT_SSH_VARIANT", "ssh".to_owned())];
    Ok(variables.map(|(name, value)| (name.to_owned(), value)).into())
}

/// A file that may be missing.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let read = fs::metadata(path).and_then(|found| {
        if found.len() > MOST { Err(io::ErrorKind::FileTooLarge.into()) } else { fs::read(path) }
    });
    match read {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Err(Failure::build(format!(
                "`{name}` of the credentials for repositories cannot be read: {error}"
            )))
        }
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(content));
    written.map_err(Failure::disk("the work folder"))
}

/// What a netrc says of this host, which it must name; `default` is for nobody.
fn of_host(netrc: &str, host: &str) -> Option<String> {
    let mut words = netrc.lines().flat_map(|line| {
        let is_remark = line.trim_start().starts_with('#');
        line.split_ascii_whitespace().filter(move |_| !is_remark)
    });
    let (mut is_own, mut own) = (false, Vec::new());
    while let Some(word) = words.next() {
        match word {
            "machine" => is_own = words.next()?.eq_ignore_ascii_case(host) && own.is_empty(),
            "default" => is_own = false,
            // What `ftp` does, which nobody asks here.
            "macdef" => break,
            key => {
                let value = words.next()?;
                if is_own {
                    own.push(format!("{key} {value}"));
                }
            }
        }
    }
    if own.is_empty() { None } else { Some(format!("machine {host} {}\n", own.join(" "))) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::address::Repository;
    use super::*;

    fn located(address: &str) -> ResolvedRepository {
        let repository = Repository::parse(address).unwrap();
        ResolvedRepository { repository, address: [198, 51, 100, 7].into() }
    }

    #[test]
    fn a_host_gets_what_names_it_and_nothing_of_another() {
        let netrc = "# machine a.example login of password remark\nmachine a.example login ada password one\n\
                     machine b.example\n  login bob\n  password two\ndefault login any password three\n\
                     macdef init\n  machine c.example login x password four\n";
        let check = |host: &str, expected: Option<&str>| {
            assert_eq!(of_host(netrc, host).as_deref(), expected, "{host}");
        };
        check("a.example", Some("machine a.example login ada password one\n"));
        check("B.example", Some("machine B.example login bob password two\n"));
        check("c.example", None);
        check("example", None);
        // A password may be any word.
        let tricky = "machine a login machine password default machine b login c password d";
        assert_eq!(of_host(tricky, "a").unwrap(), "machine a login machine password default\n");
        assert_eq!(of_host("machine a login", "a"), None);
    }

    #[test]
    fn only_a_host_that_says_who_it_is_is_given_anything() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (given, folder) = (from.path(), to.path());
        let files = || {
            let mut names: Vec<_> = fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        fs::write(given.join(NETRC), "machine a.example login ada password one").unwrap();
        for plain in ["http://a.example/x", "git://a.example/x", "https://b.example/x"] {
            assert_eq!(give(Some(given), &located(plain), folder).unwrap(), [], "{plain}");
            assert_eq!(files(), [""; 0], "{plain}");
        }
        assert_eq!(give(None, &located("https://a.example/x"), folder).unwrap(), []);
        assert_eq!(give(Some(given), &located("https://a.example/x"), folder).unwrap(), []);
        assert_eq!(files(), [".netrc"]);
        let mode = fs::metadata(folder.join(".netrc")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        fs::write(given.join(AUTHORITIES), "ours").unwrap();
        let told = give(Some(given), &located("https://b.example/x"), folder).unwrap();
        assert_eq!(told[0].0, "GIT_SSL_CAINFO");
        assert!(fs::read_to_string(&told[0].1).unwrap().ends_with("\nours"));
    }

    #[test]
    fn ssh_needs_a_key_and_a_host_that_is_known() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (given, folder) = (Some(from.path()), to.path());
        let there = located("ssh://git@a.example:2222/x.git");
        let refused = |given: Option<&Path>, name: &str| {
            let said = give(given, &there, folder).unwrap_err().message;
            assert!(said.contains(&format!("there is no `{name}`")), "{said}");
            assert!(said.contains("plugins.repositories.existingSecret"), "{said}");
        };
        refused(None, KEY);
        fs::write(from.path().join(KEY), "key").unwrap();
        refused(given, KNOWN_HOSTS);
        fs::write(from.path().join(KNOWN_HOSTS), "[a.example]:2222 ssh-ed25519 AAAA\n").unwrap();
        let told = give(given, &there, folder).unwrap();
        let command = &told[0].1;
        for option in ["HostName=198.51.100.7", "HostKeyAlias=[a.example]:2222", "-F none"] {
            assert!(command.contains(option), "{command}");
        }
        assert_eq!(fs::read(folder.join(KEY)).unwrap(), b"key\n");
        let mode = fs::metadata(folder.join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
