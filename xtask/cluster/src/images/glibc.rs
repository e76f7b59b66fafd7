//! Whether a program that was built on this machine runs in the image: it may not ask for a newer C
//! library than the image has. Programs name the versions that they ask for as `GLIBC_2.34`.

use anyhow::{Result, bail};
use memchr::memmem;

/// Refuses a program that asks for more than `most`.
pub(super) fn check(program: &str, content: &[u8], most: (u32, u32)) -> Result<()> {
    let wanted = newest(content);
    if wanted > most {
        bail!(
            "{program} needs glibc {}.{}, and the images have {}.{}; build it on an older system, \
             such as Debian 13",
            wanted.0,
            wanted.1,
            most.0,
            most.1
        );
    }
    Ok(())
}

/// The newest version that is asked for.
fn newest(content: &[u8]) -> (u32, u32) {
    const MARK: &[u8] = b"GLIBC_";
    let mut newest = (0, 0);
    for start in memmem::find_iter(content, MARK) {
        let version = &content[start + MARK.len()..];
        let end = version.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.');
        let text = String::from_utf8_lossy(&version[..end.unwrap_or(version.len())]);
        let mut numbers = text.split('.').map(str::parse);
        if let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) {
            newest = newest.max((major, minor));
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts_as_a_number() {
        let check = |content: &[u8], expected| assert_eq!(newest(content), expected);
        check(b"", (0, 0));
        check(b"\0GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0", (2, 34));
        check(b"GLIBC_PRIVATE\0GLIBC_2.41", (2, 41));
    }

    #[test]
    fn a_program_that_is_too_new_is_refused() {
        assert!(check("famulus", b"GLIBC_2.41\0", (2, 41)).is_ok());
        let error = check("famulus", b"GLIBC_2.42\0", (2, 41)).unwrap_err().to_string();
        assert!(error.starts_with("famulus needs glibc 2.42, and the images have 2.41"), "{error}");
    }
}
