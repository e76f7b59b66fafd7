//! The secrets between a runner and those who ask something of it. Both sides of each are derived,
//! nothing is kept.
//!
//! App and operator mount the installation's root key. The operator puts what follows from it into
//! the Secret that the runner mounts; the app finds the same by the same function. So it is with the
//! keeper key of operator and backups, which the app does not have: a runner gives its plugin's files
//! and configuration to nobody else.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The bearer of a runner: 64 hexadecimal digits.
///
/// `uid` is that of the Plugin, so that one made anew under the same name has another. `rendered` is
/// the number of what the runner was given ([`crate::plugin::PluginStatus::rendered`]), so that a
/// bearer that leaked ends with the next change.
pub fn runner(root_key: &[u8], uid: &str, rendered: i64) -> String {
    derive(root_key, "runner", uid, rendered)
}

/// The bearer of whoever backs a plugin up, and gives it back its files: as [`runner`], of another key.
pub fn keeper(keeper_key: &[u8], uid: &str, rendered: i64) -> String {
    derive(keeper_key, "keeper", uid, rendered)
}

fn derive(key: &[u8], of: &str, uid: &str, rendered: i64) -> String {
    // A key of any length is one.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(format!("famulus {of} v1\n{uid}\n{rendered}").as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts_and_the_same_parts_give_the_same() {
        let one = runner(b"key", "uid", 1);
        assert_eq!(one.len(), 64);
        assert_eq!(one, runner(b"key", "uid", 1));
        let others = [
            runner(b"kez", "uid", 1),
            runner(b"key", "uie", 1),
            runner(b"key", "uid", 2),
            keeper(b"key", "uid", 1),
        ];
        for other in others {
            assert_ne!(one, other);
        }
    }

    /// Computed by `openssl dgst -sha256 -hmac key`: app and operator of two releases must agree.
    #[test]
    fn the_derivation_stays() {
        let expected = "789f6f5c8f2c400c6077e0d368e27b3ae2fc5f4372fa4e3cd9b35b87cd886707";
        assert_eq!(runner(b"key", "uid", 1), expected);
    }
}
