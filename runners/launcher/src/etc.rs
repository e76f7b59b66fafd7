//! The handful of files of `/etc` that programs need; those that name users, hosts or keys are made.

use std::fs;
use std::io;
use std::path::Path;

use famulus_network::Resolvers;
use famulus_protocol::launch::{Launch, LaunchNetwork};
use rustix::process::{getgid, getuid};

use crate::error::LaunchError;
use crate::privileges;
use crate::root::{Root, place};

/// As they are on the machine, where they are.
const FILES: [&str; 7] =
    ["ld.so.cache", "ld.so.conf", "localtime", "mime.types", "os-release", "protocols", "services"];

/// Folders, with all that is in them: where programs and libraries lead to, and who is trusted.
const FOLDERS: [&str; 9] = [
    "alternatives",
    "ca-certificates",
    "fonts",
    "ld.so.conf.d",
    "perl",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "python3",
    "ssl/certs",
];

const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost\n";
const NAMES: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

pub(crate) fn fill(root: &Root<'_>, order: &Launch) -> Result<(), LaunchError> {
    let etc = Path::new("/etc");
    root.folder(etc)?;
    for name in FILES {
        let path = etc.join(name);
        // What a machine does not have, its programs do without.
        match fs::read(&path) {
            Ok(bytes) => fs::write(root.at(&path), bytes).map_err(place(&path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(place(&path)(error)),
        }
    }
    for name in FOLDERS {
        let path = etc.join(name);
        if path.is_dir() {
            root.bind(&path, &path)?;
        }
    }
    let resolvers = match order.network {
        LaunchNetwork::None => String::new(),
        LaunchNetwork::Internet { .. } => {
            Resolvers::of_the_machine().map_err(LaunchError::Network)?.seen_inside()
        }
    };
    let (user, group) = privileges::owner(order).unwrap_or_else(|| (getuid(), getgid()));
    let made = [
        ("passwd", users(user.as_raw(), group.as_raw())),
        ("group", format!("root:x:0:\nplugin:x:{}:\n", group.as_raw())),
        ("hosts", HOSTS.to_owned()),
        ("nsswitch.conf", NAMES.to_owned()),
        ("hostname", "sandbox\n".to_owned()),
        ("resolv.conf", resolvers),
    ];
    for (name, text) in made {
        let path = etc.join(name);
        fs::write(root.at(&path), text).map_err(place(&path))?;
    }
    Ok(())
}

fn users(user: u32, group: u32) -> String {
    format!("root:x:0:0:::/sbin/nologin\nplugin:x:{user}:{group}:::/bin/sh\n")
}
