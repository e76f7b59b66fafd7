//! What is mounted, as the kernel tells it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::mount::MountFlags;

/// Something that is mounted, and what it forbids: whoever mounts it anew must forbid that, too.
#[derive(Debug, PartialEq)]
pub struct Mounted {
    pub point: PathBuf,
    pub flags: MountFlags,
}

/// All that this process sees, in the order of mounting.
pub fn read() -> io::Result<Vec<Mounted>> {
    let all = fs::read("/proc/self/mountinfo")?;
    let lines = all.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let unread = || io::Error::other("a line of mountinfo has no meaning");
    lines.map(|line| parse(line).ok_or_else(unread)).collect()
}

/// Reads a line: the fifth field is where, the sixth how.
fn parse(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|byte| *byte == b' ').skip(4);
    let point = PathBuf::from(OsString::from_vec(plain(fields.next()?)));
    let options = std::str::from_utf8(fields.next()?).ok()?;
    let flags = options.split(',').map(|option| match option {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    });
    Some(Mounted { point, flags: flags.collect() })
}

/// A path as it is: blanks, line ends and backslashes are written as three octal digits.
fn plain(mut written: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(written.len());
    while let Some((first, rest)) = written.split_first() {
        let digits = rest.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = byte.filter(|_| *first == b'\\') {
            path.push(byte);
            written = &rest[3..];
        } else {
            path.push(*first);
            written = rest;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mount_forbids_is_kept() {
        let check = |line: &str, expected: Option<(&str, MountFlags)>| {
            let expected = expected.map(|(point, flags)| Mounted { point: point.into(), flags });
            assert_eq!(parse(line.as_bytes()), expected, "{line}");
        };
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NOATIME;
        check(
            "36 35 98:0 /mnt1 /mnt/dev/pts rw,nosuid,noexec,noatime master:1 - ext3 /dev/root rw",
            Some(("/mnt/dev/pts", flags)),
        );
        check("1 2 3:4 / /a\\040b\\134c ro - x y z", Some(("/a b\\c", MountFlags::RDONLY)));
        check("36 35", None);
    }
}
