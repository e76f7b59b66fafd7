//! Styles that a platform tells as ranges of UTF-16 units, as Markdown.
//!
//! A range may end in the middle of another, or beyond the text: what cannot be is left out, and the text
//! never is.

/// How a range is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark<'a> {
    Bold,
    Italic,
    Strike,
    Spoiler,
    Code,
    /// A block of code, in this language, which may be empty.
    Block(&'a str),
    Link(&'a str),
    Quote,
}

/// A style of a text, in UTF-16 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range<'a> {
    pub(crate) offset: i64,
    pub(crate) length: i64,
    pub(crate) mark: Mark<'a>,
}

impl Mark<'_> {
    /// What stands before and behind it; a quote stands before each line.
    fn signs(self) -> Option<(String, String)> {
        let both = |sign: &str| Some((sign.to_owned(), sign.to_owned()));
        match self {
            Self::Bold => both("**"),
            Self::Italic => both("*"),
            Self::Strike => both("~~"),
            Self::Spoiler => both("||"),
            Self::Code => both("`"),
            Self::Block(language) => Some((format!("```{language}\n"), "\n```".to_owned())),
            Self::Link(url) => Some(("[".to_owned(), format!("]({url})"))),
            Self::Quote => None,
        }
    }
}

/// The text as Markdown.
pub(crate) fn marked<'a>(text: &str, ranges: impl IntoIterator<Item = Range<'a>>) -> String {
    let places = places(text);
    let at = |units: i64| usize::try_from(units).ok().and_then(|units| places.get(units).copied());
    // Where something opens or closes: (byte, opens, length, sign).
    let mut signs: Vec<Sign> = Vec::new();
    let mut quotes: Vec<(usize, usize)> = Vec::new();
    for Range { offset, length, mark } in ranges {
        let (Some(from), Some(to)) = (at(offset), at(offset.saturating_add(length))) else {
            continue;
        };
        // A style with a space at its edge is none in Markdown.
        let Some(inner) = text.get(from..to) else { continue };
        let from = from + (inner.len() - inner.trim_start().len());
        let to = from + text[from..to.max(from)].trim_end().len();
        if from >= to {
            continue;
        }
        let Some((open, close)) = mark.signs() else {
            quotes.push((from, to));
            continue;
        };
        let length = to - from;
        signs.push(Sign { at: from, opens: true, length, text: open });
        signs.push(Sign { at: to, opens: false, length, text: close });
    }
    // At one place, what ends comes first, the shortest before what holds it; then what begins, the
    // longest first.
    signs.sort_by_key(|sign| {
        let length = sign.length as i64;
        (sign.at, sign.opens, if sign.opens { -length } else { length })
    });
    write(text, &signs, &quotes)
}

struct Sign {
    at: usize,
    opens: bool,
    length: usize,
    text: String,
}

fn write(text: &str, signs: &[Sign], quotes: &[(usize, usize)]) -> String {
    let mut markdown = String::with_capacity(text.len() + 8 * signs.len());
    let mut signs = signs.iter().peekable();
    let is_quoted = |at: usize| quotes.iter().any(|(from, to)| (*from..*to).contains(&at));
    let mut starts_line = true;
    for (at, character) in text.char_indices() {
        if starts_line && is_quoted(at) {
            while let Some(sign) = signs.next_if(|sign| sign.at <= at && !sign.opens) {
                markdown.push_str(&sign.text);
            }
            markdown.push_str("> ");
        }
        while let Some(sign) = signs.next_if(|sign| sign.at <= at) {
            markdown.push_str(&sign.text);
        }
        markdown.push(character);
        starts_line = character == '\n';
    }
    for sign in signs {
        markdown.push_str(&sign.text);
    }
    markdown
}

/// The byte of each UTF-16 unit that begins a character, and of the end; a unit within one has that of
/// the character's end.
fn places(text: &str) -> Vec<usize> {
    let mut places = Vec::with_capacity(text.len() + 1);
    for (at, character) in text.char_indices() {
        places.push(at);
        if character.len_utf16() == 2 {
            places.push(at + character.len_utf8());
        }
    }
    places.push(text.len());
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(mark: Mark<'static>, offset: i64, length: i64) -> Range<'static> {
        Range { offset, length, mark }
    }

    #[test]
    fn ranges_are_of_utf16_units() {
        use Mark::{Block, Bold, Code, Italic, Link, Quote};
        let check = |text: &str, ranges: &[Range<'static>], expected: &str| {
            assert_eq!(marked(text, ranges.iter().copied()), expected);
        };
        check("plain *as is*", &[], "plain *as is*");
        check("😀 hot tea", &[range(Bold, 3, 3)], "😀 **hot** tea");
        check("ab cd", &[range(Bold, 0, 5), range(Italic, 3, 2)], "**ab *cd***");
        check("ab cd", &[range(Italic, 3, 2), range(Bold, 0, 5)], "**ab *cd***");
        check("a b ", &[range(Bold, 0, 4)], "**a b** ");
        check("   ", &[range(Bold, 0, 3)], "   ");
        let odd = [(0, 9), (-1, 1), (1, 0), (1, -1), (0, i64::MAX), (i64::MAX, 1)];
        check("x", &odd.map(|(offset, length)| range(Bold, offset, length)), "x");
        check("x", &[range(Block("py"), 0, 1)], "```py\nx\n```");
        check("x y", &[range(Link("https://a.example"), 0, 1)], "[x](https://a.example) y");
        check("one\ntwo\nmine", &[range(Quote, 0, 7)], "> one\n> two\nmine");
        check("ab", &[range(Bold, 0, 1), range(Code, 1, 1)], "**a**`b`");
    }
}
