//! The words and signs of a Rust file, without its comments and texts.
//!
//! Not a parser: enough to find a word where it is code, in a rule and in the rule's own tests.

/// A word or a sign, and the line that it stands on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
}

pub(super) fn words(file: &str) -> Vec<Word<'_>> {
    let (mut words, mut rest, mut line) = (Vec::new(), file, 1);
    while let Some(first) = rest.chars().next() {
        let aside = comment(rest).or_else(|| raw_text(rest)).or_else(|| quoted(rest));
        let (text, after) = rest.split_at(aside.unwrap_or_else(|| word(rest, first)));
        if aside.is_none() && !first.is_whitespace() {
            words.push(Word { line, text });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    words
}

/// The length of the word or sign that begins here.
fn word(rest: &str, first: char) -> usize {
    let ends = |c: char| !c.is_alphanumeric() && c != '_';
    if ends(first) { first.len_utf8() } else { rest.find(ends).unwrap_or(rest.len()) }
}

/// The length of the comment that begins here, if one does; that of a block may hold others.
fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    let (mut depth, mut at) = (1, rest.strip_prefix("/*").map(|_| 2)?);
    while depth > 0 {
        let Some(next) = rest[at..].find("/*").into_iter().chain(rest[at..].find("*/")).min()
        else {
            return Some(rest.len());
        };
        depth = if rest[at + next..].starts_with("/*") { depth + 1 } else { depth - 1 };
        at += next + 2;
    }
    Some(at)
}

/// The length of the raw text that begins here, if one does: `r#"…"#`.
fn raw_text(rest: &str) -> Option<usize> {
    let inner = ["r", "br", "cr"].iter().find_map(|prefix| {
        rest.strip_prefix(prefix).filter(|inner| inner.starts_with(['#', '"']))
    })?;
    let text = inner.trim_start_matches('#');
    let hashes = &inner[..inner.len() - text.len()];
    let text = text.strip_prefix('"')?;
    let end = format!("\"{hashes}");
    let before = rest.len() - text.len();
    Some(text.find(&end).map_or(rest.len(), |at| before + at + end.len()))
}

/// The length of the text or character that begins here, if one does. A lifetime is neither.
fn quoted(rest: &str) -> Option<usize> {
    let quote = rest.chars().next().filter(|first| ['"', '\''].contains(first))?;
    let mut next = rest.chars().skip(1);
    if quote == '\'' && next.next() != Some('\\') && next.next() != Some('\'') {
        return None;
    }
    let mut inner = rest.char_indices().skip(1);
    while let Some((at, c)) = inner.next() {
        if c == '\\' {
            inner.next();
        } else if c == quote {
            return Some(at + 1);
        }
    }
    Some(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_no_words() {
        let table: [(&str, &[&str]); 11] = [
            ("use std::fs;", &["use", "std", ":", ":", "fs", ";"]),
            ("one // two\nthree", &["one", "three"]),
            ("/// two", &[]),
            ("one /* two /* three */ four */ five", &["one", "five"]),
            ("/* open", &[]),
            (r#"a("two \" three", b"four")"#, &["a", "(", ",", "b", ")"]),
            (r##"r#"two " three"# four"##, &["four"]),
            ("raw r#fn", &["raw", "r", "#", "fn"]),
            (r"('\'', '\\', '\u{1f600}', '\n')", &["(", ",", ",", ",", ")"]),
            ("&'a ['\"', 'é', '_']", &["&", "'", "a", "[", ",", ",", "]"]),
            ("\"open", &[]),
        ];
        for (file, expected) in table {
            let found: Vec<&str> = words(file).iter().map(|word| word.text).collect();
            assert_eq!(found, expected, "{file}");
        }
    }

    #[test]
    fn words_know_their_line() {
        let found = words("one\n\"two\n\"\n/*\n*/ five");
        assert_eq!(found, [Word { line: 1, text: "one" }, Word { line: 5, text: "five" }]);
    }
}
