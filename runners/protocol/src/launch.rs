//! What a sandbox of one machine is made of: told by who starts it, made by the launcher.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The first word of the launcher's arguments; the second is a [`Launch`] as JSON, the third, if there is one,
/// [`LaunchLimits`].
pub const LAUNCH: &str = "launch";

/// The exit code of a launcher that made no sandbox. Why stands on its standard error.
pub const NOT_LAUNCHED: u8 = 125;

/// An order to the launcher. It holds no secret: arguments of a process are read by others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// An empty folder of the launcher's user, over which the new root is mounted; sandboxes may share it.
    pub root: PathBuf,
    /// The id of the user and the group that everything in the sandbox has, where the launcher is root.
    /// Otherwise it has that of the launcher.
    pub user: Option<u32>,
    pub places: Vec<Place>,
    pub network: LaunchNetwork,
    /// All variables of the program.
    pub variables: BTreeMap<String, String>,
    /// The program, by its path in the sandbox, and its arguments.
    pub command: Vec<String>,
}

/// Something that is seen in a sandbox beside the system's programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// A file or a folder outside, whose path nobody but the launcher's user can change. Without one it is an
    /// empty folder in memory.
    pub from: Option<PathBuf>,
    /// Where it is inside: an absolute path that lies in no other place and in no folder of the system's.
    pub to: PathBuf,
    pub writable: bool,
}

/// What is reached over the network of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LaunchNetwork {
    /// Nothing but itself.
    None,
    /// Public addresses that are none of this machine's, and those that are named.
    Internet { also: Vec<SocketAddr> },
}

/// What all processes of a sandbox together may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchLimits {
    /// They are made before the sandbox, hold each of its processes, and are removed behind it.
    pub groups: Vec<ControlGroup>,
    /// Small files that the sandbox reads of its limits.
    pub files: Vec<LimitFile>,
}

/// A control group of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlGroup {
    /// Its folder, which is made.
    pub folder: PathBuf,
    /// In the order in which they are set.
    pub limits: Vec<GroupLimit>,
}

/// A file of a control group, and what is written into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupLimit {
    pub file: String,
    pub value: String,
    /// Not every kernel has the file.
    pub is_optional: bool,
}

/// A file that is made in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitFile {
    pub path: PathBuf,
    pub text: String,
}
