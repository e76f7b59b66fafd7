//! Why there is no sandbox.

use std::io;
use std::path::PathBuf;

/// Each names what is missing, and what the owner of the machine can do.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("the order of the launcher cannot be read: {0}; this is a defect of who started it")]
    Order(serde_json::Error),
    #[error("the order of the launcher is wrong: {0}; this is a defect of who started it")]
    Wrong(String),
    #[error(
        "no user namespace can be made ({0}), and without one only root makes sandboxes; allow them \
         (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone or \
         kernel.apparmor_restrict_unprivileged_userns), or run famulus as root"
    )]
    UserNamespace(io::Error),
    #[error(
        "no namespaces can be made ({0}); in a container give it CAP_SYS_ADMIN and a profile of system \
         calls that lets it unshare and mount, or run famulus outside of one"
    )]
    Namespaces(io::Error),
    #[error(
        "the root of the sandbox could not be made: {what}: {source}; where famulus is in a container, its \
         profile must let it mount"
    )]
    Root { what: String, source: io::Error },
    #[error("{path} is to be seen in the sandbox and cannot be: {source}")]
    Place { path: PathBuf, source: io::Error },
    #[error(
        "the control group {path} of the sandbox cannot be made, limited or entered ({source}); run famulus where \
         its control group is its own, as that of a service of systemd with Delegate=yes is"
    )]
    Group { path: PathBuf, source: io::Error },
    #[error("the sandbox's own network could not be started: {0}")]
    Network(io::Error),
    #[error(
        "no interface to the internet can be made from /dev/net/tun ({0}); load the module tun and let \
         everybody open that file (mode 666, as most systems have it), or in a container add the device"
    )]
    Interface(io::Error),
    #[error("the network of the sandbox is not served any more: {0}")]
    NetworkEnded(String),
    #[error("the sandbox could not give up its rights: {what}: {source}")]
    Privileges { what: &'static str, source: io::Error },
    #[error("the sandbox is not what it is to be: {0}; nothing runs in it")]
    NotAsWanted(String),
    #[error("{program} cannot be executed in the sandbox: {source}")]
    Program { program: String, source: io::Error },
    #[error("standard input must be a pipe that is held by who starts the sandbox: {0}")]
    Starter(io::Error),
    #[error("who started the sandbox is gone")]
    Alone,
    #[error("the process inside of the sandbox cannot be started or waited for: {0}")]
    Process(io::Error),
}

impl LaunchError {
    pub(crate) fn root(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Root { what, source }
    }

    pub(crate) fn privileges(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |error| Self::Privileges { what, source: error.into() }
    }
}
