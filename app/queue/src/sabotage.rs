//! Takes one safety out, to prove that the crash harness notices. Exists only with the `sabotage`
//! feature; `FAMULUS_SABOTAGE` names the safety.

use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// Writes no longer prove their token.
    Fencing,
    /// A repeated message is accepted as a new one.
    Deduplication,
    /// A lane is claimed although its lease has not ended.
    Lease,
}

/// Whether this safety is taken out.
pub fn is_out(safety: Safety) -> bool {
    static OUT: OnceLock<Option<Safety>> = OnceLock::new();
    *OUT.get_or_init(|| {
        #[expect(clippy::disallowed_methods, reason = "a switch of test builds only")]
        match std::env::var("FAMULUS_SABOTAGE").ok()?.as_str() {
            "fencing" => Some(Safety::Fencing),
            "deduplication" => Some(Safety::Deduplication),
            "lease" => Some(Safety::Lease),
            _ => None,
        }
    }) == Some(safety)
}
