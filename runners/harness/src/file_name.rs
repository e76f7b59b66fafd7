//! Names of files that somebody else chose.

/// The longest name of a file, in bytes: what file systems take.
const LONGEST_NAME: usize = 255;

/// Whether a name stays in its folder, wherever it is used, and shows what it is.
pub fn is_safe(name: &str) -> bool {
    let turns = |letter| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (1..=LONGEST_NAME).contains(&name.len())
        && ![".", ".."].contains(&name)
        && !name.chars().any(|letter| letter == '/' || letter.is_control() || turns(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_that_stays_where_it_is_and_shows_what_it_is() {
        for name in ["a.txt", ".hidden", "ä ö.pdf", "-rf", &"x".repeat(255)] {
            assert!(is_safe(name), "{name:?}");
        }
        for name in ["../x", "a/b", "..", ".", "", "a\nb", "a\0b", &"x".repeat(256)] {
            assert!(!is_safe(name), "{name:?}");
        }
        assert!(!is_safe("invoice\u{202e}fdp.exe"), "it would show as invoiceexe.pdf");
    }
}
