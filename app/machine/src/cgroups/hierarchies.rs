//! The folders below which this process may make control groups.
//!
//! Version 1 has a hierarchy for each controller, and groups are made below the one of this process. Version 2
//! has one hierarchy, in which a group has either processes or groups below it: they are made below the group of
//! this process where that is its own, and this process moves into a leaf of it; else below the nearest group
//! above it that is open to it and has no processes, which is where systemd puts those that it starts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, getxattr};
use rustix::io::Errno;

/// The folder of the kernel's control groups.
const GROUPS: &str = "sys/fs/cgroup";

/// Who is in a group, what may be limited in it, and what is in those below it.
const PROCESSES: &str = "cgroup.procs";
const AVAILABLE: &str = "cgroup.controllers";
const ENABLED: &str = "cgroup.subtree_control";

/// Every group of version 2 has it but the first of the machine.
const KIND: &str = "cgroup.type";

/// By which systemd marks a group that it leaves to its service.
const DELEGATED: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// The leaf of this process, where its group is its own.
const LEAF: &str = "famulus";

/// How often processes are moved into the leaf that others make meanwhile.
const MOVES: u32 = 16;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Controller {
    Memory,
    Pids,
    Cpu,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    /// As the kernel names it.
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// A folder below which groups may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) folder: PathBuf,
    pub(super) version: Version,
    pub(super) controllers: Vec<Controller>,
}

impl Hierarchy {
    pub(super) fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }
}

/// Finds them below `root`. A controller is in one of them at most.
pub(super) fn find(root: &Path) -> io::Result<Vec<Hierarchy>> {
    let groups = root.join(GROUPS);
    let own = fs::read_to_string(root.join("proc/self/cgroup"))?;
    let ones = Controller::ALL.into_iter().filter_map(|controller| one(&groups, &own, controller));
    let mut found: Vec<Hierarchy> = ones.collect();
    let top =
        [groups.join("unified"), groups].into_iter().find(|top| top.join(AVAILABLE).is_file());
    let path = own.lines().find_map(|line| line.strip_prefix("0::"));
    if let (Some(top), Some(path)) = (top, path) {
        found.extend(two(&top, &within(&top, path))?);
    }
    Ok(found)
}

/// The group at this path, which is told from the top of the machine: a container may see it as the first.
fn within(top: &Path, path: &str) -> PathBuf {
    let group = top.join(path.trim_start_matches('/'));
    if group.is_dir() { group } else { top.to_owned() }
}

fn one(groups: &Path, own: &str, controller: Controller) -> Option<Hierarchy> {
    let name = controller.name();
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let is_its = fields.next()?.split(',').any(|one| one == name);
        fields.next().filter(|_| is_its)
    })?;
    let folder = within(&groups.join(name), path);
    let version = Version::One;
    is_open(&folder).then(|| Hierarchy { folder, version, controllers: vec![controller] })
}

fn two(top: &Path, own: &Path) -> io::Result<Option<Hierarchy>> {
    let of = |folder: &Path, controllers: Vec<Controller>| {
        let found = Hierarchy { folder: folder.to_owned(), version: Version::Two, controllers };
        Some(found).filter(|found| !found.controllers.is_empty())
    };
    if !own.join(KIND).exists() {
        // The first of the machine has processes and groups.
        return Ok(if is_open(own) { of(own, enable(own)?) } else { None });
    }
    if (own == top || is_delegated(own)) && is_open(own) {
        return Ok(of(own, part(own)?));
    }
    let above = own.ancestors().skip(1).take_while(|group| group.starts_with(top));
    for group in above.filter(|group| is_open(group)) {
        let enabled = named(&group.join(ENABLED))?;
        if [Controller::Memory, Controller::Pids].iter().all(|one| enabled.contains(one)) {
            return Ok(of(group, enabled));
        }
    }
    Ok(None)
}

/// Groups may be made there, and processes moved.
fn is_open(group: &Path) -> bool {
    access(group, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        && access(group.join(PROCESSES), Access::WRITE_OK).is_ok()
}

fn is_delegated(group: &Path) -> bool {
    DELEGATED.iter().any(|name| {
        let mut value = [0; 1];
        // Whose mark cannot be read is not ours.
        getxattr(group, *name, &mut value[..]).is_ok() && value == *b"1"
    })
}

/// Parts a group of our own into a leaf with the processes that are in it, and what is made beside that.
fn part(group: &Path) -> io::Result<Vec<Controller>> {
    let leaf = group.join(LEAF);
    fs::create_dir_all(&leaf)?;
    for _move in 0..MOVES {
        for process in fs::read_to_string(group.join(PROCESSES))?.lines() {
            match fs::write(leaf.join(PROCESSES), process) {
                // It ended meanwhile.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                moved => moved?,
            }
        }
        match enable(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            enabled => return enabled,
        }
    }
    Err(io::Error::other("processes are started in it faster than they are moved into a leaf"))
}

/// Has what is made below the group be limited, as far as the kernel can.
fn enable(group: &Path) -> io::Result<Vec<Controller>> {
    let (available, enabled) = (named(&group.join(AVAILABLE))?, named(&group.join(ENABLED))?);
    for controller in available.iter().filter(|one| !enabled.contains(one)) {
        fs::write(group.join(ENABLED), format!("+{}", controller.name()))?;
    }
    Ok(available)
}

fn named(file: &Path) -> io::Result<Vec<Controller>> {
    let text = fs::read_to_string(file)?;
    let is_named = |one: &Controller| text.split_ascii_whitespace().any(|name| name == one.name());
    Ok(Controller::ALL.into_iter().filter(is_named).collect())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{XattrFlags, setxattr};
    use tempfile::TempDir;

    use super::*;

    /// A machine of files.
    struct Tree(TempDir);

    impl Tree {
        fn new(own: &str) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            tree.write("proc/self/cgroup", own);
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// A group of version 2, with what is available in it and what is enabled below it.
        fn group(&self, path: &str, available: &str, enabled: &str) {
            let files = [
                (PROCESSES, "17\n18\n"),
                (KIND, "domain\n"),
                (AVAILABLE, available),
                (ENABLED, enabled),
            ];
            for (name, text) in files {
                self.write(&format!("{GROUPS}/{path}{name}"), text);
            }
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.0.path().join(GROUPS).join(path)).unwrap()
        }

        fn found(&self) -> Vec<(String, Version, Vec<Controller>)> {
            let groups = self.0.path().join(GROUPS);
            let all = find(self.0.path()).unwrap().into_iter();
            let below = |path: &Path| path.strip_prefix(&groups).unwrap().display().to_string();
            all.map(|one| (below(&one.folder), one.version, one.controllers)).collect()
        }
    }

    const ALL: &str = "cpuset cpu io memory pids\n";

    #[test]
    fn the_first_version_has_a_folder_for_each_controller_below_that_of_this_process() {
        let own = "5:pids:/\n4:memory:/own/group\n3:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n";
        let tree = Tree::new(own);
        tree.write("sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n");
        tree.write("sys/fs/cgroup/unified/cgroup.subtree_control", "\n");
        tree.write("sys/fs/cgroup/unified/cgroup.procs", "1\n");
        for path in ["pids", "memory", "memory/own/group", "cpu"] {
            tree.write(&format!("{GROUPS}/{path}/{PROCESSES}"), "");
        }
        let expected = [
            ("memory/own/group", Controller::Memory),
            ("pids", Controller::Pids),
            ("cpu", Controller::Cpu),
        ];
        let expected =
            expected.map(|(path, one)| (path.to_owned(), Version::One, vec![one])).to_vec();
        assert_eq!(tree.found(), expected);
    }

    #[test]
    fn a_container_that_sees_its_own_group_as_the_first_uses_it() {
        let tree = Tree::new("4:memory:/docker/0a1b\n");
        tree.write("sys/fs/cgroup/memory/cgroup.procs", "");
        let expected = ("memory".to_owned(), Version::One, vec![Controller::Memory]);
        assert_eq!(tree.found(), [expected]);
    }

    #[test]
    fn the_first_group_of_the_machine_is_used_as_it_is() {
        let tree = Tree::new("0::/\n");
        tree.group("", ALL, "memory pids\n");
        fs::remove_file(tree.0.path().join(GROUPS).join(KIND)).unwrap();
        let expected = (String::new(), Version::Two, Controller::ALL.to_vec());
        assert_eq!(tree.found(), [expected]);
        assert_eq!(tree.read(ENABLED), "+cpu", "what was enabled is not touched");
        assert!(!tree.0.path().join(GROUPS).join(LEAF).exists());
    }

    #[test]
    fn a_group_that_is_left_to_this_process_is_parted() {
        let tree = Tree::new("0::/app.slice/famulus.service\n");
        tree.group("", ALL, ALL);
        tree.group("app.slice/", ALL, ALL);
        tree.group("app.slice/famulus.service/", "memory pids\n", "\n");
        let own = tree.0.path().join(GROUPS).join("app.slice/famulus.service");
        setxattr(&own, "user.delegate", b"1", XattrFlags::empty()).unwrap();
        let controllers = vec![Controller::Memory, Controller::Pids];
        let expected = ("app.slice/famulus.service".to_owned(), Version::Two, controllers);
        assert_eq!(tree.found(), [expected]);
        assert_eq!(tree.read("app.slice/famulus.service/famulus/cgroup.procs"), "18");
    }

    #[test]
    fn a_group_that_is_not_is_left_alone_for_the_nearest_above_it_that_may_have_groups() {
        let tree = Tree::new("0::/user.slice/session.scope/deep\n");
        tree.group("", ALL, ALL);
        tree.group("user.slice/", ALL, "memory pids\n");
        tree.group("user.slice/session.scope/", ALL, "pids\n");
        tree.group("user.slice/session.scope/deep/", ALL, "\n");
        let controllers = vec![Controller::Memory, Controller::Pids];
        assert_eq!(tree.found(), [("user.slice".to_owned(), Version::Two, controllers)]);
        let deep = "user.slice/session.scope/deep";
        assert_eq!(tree.read(&format!("{deep}/{ENABLED}")), "\n");
        assert!(!tree.0.path().join(GROUPS).join(deep).join(LEAF).exists());
    }

    #[test]
    fn without_groups_nothing_is_found() {
        let check = |tree: &Tree| assert_eq!(tree.found(), []);
        check(&Tree::new(""));
        check(&Tree::new("4:memory:/\n0::/\n"));
        // One that nobody can be moved into is of no use.
        let tree = Tree::new("4:memory:/\n");
        fs::create_dir_all(tree.0.path().join(GROUPS).join("memory")).unwrap();
        check(&tree);
        // Nor is one in which nothing is limited.
        let tree = Tree::new("0::/own.scope\n");
        tree.group("", ALL, "cpu\n");
        tree.group("own.scope/", ALL, "\n");
        check(&tree);
    }
}
