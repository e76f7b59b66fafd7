//! Whether a program that goes into an image for users is the one that is shipped: the assistant knows none of the
//! switches by which the crash harness is told where to die, and which safety to take out.

use anyhow::{Result, bail};
use memchr::memmem;

/// The program that can be built with them.
const PROGRAM: &str = "famulus";

/// They stand in a program that reads them, as `app/server/tests/release_is_clean.rs` shows.
const SWITCHES: [&str; 2] = ["FAMULUS_CRASH", "FAMULUS_SABOTAGE"];

/// What the assistant says, so that a file in which nothing is found is not taken for it.
const SERVES: &str = "Famulus listens on";

/// Refuses the assistant if it knows a switch, or is none.
pub(super) fn check(program: &str, content: &[u8]) -> Result<()> {
    if program != PROGRAM {
        return Ok(());
    }
    let knows = |word: &str| memmem::find(content, word.as_bytes()).is_some();
    if let Some(switch) = SWITCHES.into_iter().find(|switch| knows(switch)) {
        bail!(
            "{program} obeys {switch}, a switch of the crash harness; build it without the feature \
             `harness`"
        );
    }
    if !knows(SERVES) {
        bail!("{program} does not say {SERVES:?}, so it is not the program that serves");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_switch_goes_into_no_image_for_users() {
        let table: [(&str, &[u8], &str); 7] = [
            ("famulus", b"\0Famulus listens on http\0", ""),
            ("famulus", b"Famulus listens on \0FAMULUS_CRASH\0", "famulus obeys FAMULUS_CRASH"),
            ("famulus", b"FAMULUS_SABOTAGEFamulus listens on ", "famulus obeys FAMULUS_SABOTAGE"),
            ("famulus", b"FAMULUS_CRAS\0_SABOTAGE\0", "famulus does not say"),
            ("famulus", b"", "famulus does not say"),
            ("famulus-operator", b"", ""),
            ("famulus-runner", b"FAMULUS_CRASH", ""),
        ];
        for (program, content, expected) in table {
            let refusal = check(program, content).err().map(|error| error.to_string());
            let refusal = refusal.unwrap_or_default();
            assert!(refusal.starts_with(expected), "{program}: {refusal}");
            assert_eq!(refusal.is_empty(), expected.is_empty(), "{program}: {refusal}");
        }
    }
}
