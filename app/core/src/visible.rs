//! Text shown to somebody who must decide: what cannot be seen is written out.

use std::fmt::Write as _;

/// Replaces invisible and direction-changing characters by a visible `⟨U+XXXX⟩`.
///
/// Line breaks and tabs stay. Combining marks stay. Everything that a terminal or page may render
/// as nothing, or that may reorder its neighbours, does not.
pub fn make_visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            let _infallible = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// At most so many characters of a text, with a mark where there were more.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Characters of a file's name that are kept.
pub const FILE_NAME: usize = 255;

/// A file's name as it is shown: the last part of a path, without what cannot be seen.
pub fn file_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown: String = last.chars().filter(|c| !c.is_control()).take(FILE_NAME).collect();
    if shown.trim().is_empty() { "file".to_owned() } else { shown }
}

fn is_hidden(c: char) -> bool {
    if c == '\n' || c == '\t' {
        return false;
    }
    c.is_control()
        || matches!(
            u32::from(c),
            0x00A0                      // no-break space
            | 0x00AD                    // soft hyphen
            | 0x034F                    // combining grapheme joiner
            | 0x061C                    // Arabic letter mark
            | 0x115F | 0x1160 | 0x3164 | 0xFFA0 // Hangul fillers
            | 0x17B4 | 0x17B5           // Khmer inherent vowels
            | 0x180B..=0x180F           // Mongolian selectors
            | 0x2000..=0x200F           // spaces, zero-width, marks
            | 0x2028..=0x202F           // separators, bidi embedding
            | 0x205F..=0x206F           // joiners, isolates, invisible operators
            | 0x2800                    // Braille blank
            | 0x3000                    // ideographic space
            | 0xFE00..=0xFE0F           // variation selectors
            | 0xFEFF                    // byte order mark
            | 0xFFF0..=0xFFFB           // specials
            | 0x1BCA0..=0x1BCA3         // shorthand controls
            | 0x1D173..=0x1D17A         // musical controls
            | 0xE0000..=0xE0FFF         // tags and more variation selectors
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shortened_says_so_and_cuts_no_character() {
        let check = |text, most, expected: &str| assert_eq!(shortened(text, most), expected);
        check("tea", 3, "tea");
        check("teas", 3, "tea…");
        check("é漢x", 2, "é漢…");
        check("", 0, "");
    }

    #[test]
    fn a_files_name_is_never_a_path() {
        let check = |name, expected| assert_eq!(file_name(name), expected);
        check("a.txt", "a.txt");
        check("../../etc/passwd", "passwd");
        check("C:\\x\\y.doc", "y.doc");
        check("a\u{0}\nb", "ab");
        check("", "file");
        check("dir/", "file");
    }

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        let check = |text: &str, expected: &str| assert_eq!(make_visible(text), expected);
        check("plain\n\ttext é ü 漢", "plain\n\ttext é ü 漢");
        check("a\u{200b}b", "a⟨U+200B⟩b");
        check("rm\u{202e}txt", "rm⟨U+202E⟩txt");
        check("\u{e0041}", "⟨U+E0041⟩");
        check("\u{1b}[2J", "⟨U+001B⟩[2J");
        check("a\rb\0", "a⟨U+000D⟩b⟨U+0000⟩");
    }
}
