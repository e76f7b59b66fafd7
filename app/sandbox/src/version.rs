//! Which version of the protocol is spoken with a runner: decided here, and nowhere else.
//!
//! A runner is of the app's release, or of the one before while an upgrade is under way. The app
//! speaks first in the newest version; a runner that does not know its paths is asked what it knows.

use famulus_protocol::VERSION;

/// The versions that this app speaks, newest first: its own, and the one before when there is one.
pub(crate) const SPOKEN: &[u32] = &[VERSION];

/// The newest version that both speak.
pub(crate) fn common(offered: &[u32]) -> Option<u32> {
    SPOKEN.iter().copied().find(|version| offered.contains(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_spoken() {
        assert_eq!(common(&[VERSION]), Some(VERSION));
        assert_eq!(common(&[VERSION + 1, VERSION]), Some(VERSION));
        assert_eq!(common(&[VERSION + 1]), None);
        assert_eq!(common(&[]), None);
    }
}
