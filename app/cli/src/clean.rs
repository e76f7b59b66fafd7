//! Text that somebody else wrote, made fit for a terminal.
//!
//! A model, a tool or a title can hold escape sequences that move the cursor, rename the window
//! or fill the clipboard. Nothing of that reaches the terminal: controls are written out as
//! visible signs. Invisible but harmless characters (joiners of emoji, no-break spaces) stay;
//! what somebody must decide upon goes through [`famulus_core::visible::make_visible`] as well.

use std::fmt::Write as _;

/// Makes text of any length safe to print. Line breaks stay, a tab becomes four spaces, and a
/// carriage return is dropped, because it could overwrite the line that it stands in.
pub(crate) fn clean(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => safe.push('\n'),
            '\t' => safe.push_str("    "),
            '\r' => {}
            _ if is_dangerous(c) => write_out(&mut safe, c),
            _ => safe.push(c),
        }
    }
    safe
}

/// The same for text that must stay on one line: line breaks become spaces.
pub(crate) fn one_line(text: &str) -> String {
    clean(text).replace('\n', " ").trim().to_owned()
}

fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(
            u32::from(c),
            // Line and paragraph separator: some terminals break the line, some do not.
            0x2028 | 0x2029
            // Embeddings, overrides and isolates reorder what stands beside them.
            | 0x202A..=0x202E
            | 0x2066..=0x2069
            // Interlinear annotations.
            | 0xFFF9..=0xFFFB
        )
}

fn write_out(safe: &mut String, c: char) {
    let code = u32::from(c);
    let picture = match code {
        0x00..=0x1F => char::from_u32(0x2400 + code),
        0x7F => Some('\u{2421}'),
        _ => None,
    };
    match picture {
        Some(picture) => safe.push(picture),
        None => {
            // Writing to a String cannot fail.
            let _infallible = write!(safe, "⟨U+{code:04X}⟩");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn controls_are_written_out() {
        let check = |text: &str, expected: &str| assert_eq!(clean(text), expected, "{text:?}");
        check("plain é 漢 👩‍👩‍👧 ❤\u{fe0f}", "plain é 漢 👩‍👩‍👧 ❤\u{fe0f}");
        check("a\nb\tc\r\n", "a\nb    c\n");
        check("\u{1b}]52;c;aGk=\u{7}", "␛]52;c;aGk=␇");
        check("\u{9b}2J\u{7f}\0", "⟨U+009B⟩2J␡␀");
        check("good\rbad", "goodbad");
        check("a\u{202e}b\u{2066}c", "a⟨U+202E⟩b⟨U+2066⟩c");
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line(" a\nb\u{1b}[1A\r\n"), "a b␛[1A");
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_is_left(text in any::<String>()) {
            let safe = clean(&text);
            prop_assert!(safe.chars().all(|c| c == '\n' || !c.is_control()));
            prop_assert_eq!(clean(&safe), safe);
        }
    }
}
