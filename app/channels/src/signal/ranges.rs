//! Styled text as Signal has it: a plain text, and ranges of UTF-16 units with a style each.
//!
//! What it has no style for is written: a quote's lines begin with a sign, an address stands behind what
//! it is the link of.

use crate::styled::{Style, Styled};

/// A text with its styles, each as `start:length:STYLE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranged {
    pub(super) text: String,
    pub(super) styles: Vec<String>,
}

const QUOTE: &str = "> ";

/// By name, and whether a style has it.
type Kind = (&'static str, fn(&Style) -> bool);

const KINDS: [Kind; 4] = [
    ("BOLD", |style| style.bold),
    ("ITALIC", |style| style.italic),
    ("STRIKETHROUGH", |style| style.strike),
    ("MONOSPACE", |style| style.code || style.block.is_some()),
];

#[derive(Default)]
struct Writer {
    ranged: Ranged,
    /// UTF-16 units so far.
    units: usize,
    /// Where each kind began that is open.
    open: [Option<usize>; KINDS.len()],
}

pub(super) fn ranged(styled: &Styled) -> Ranged {
    let mut writer = Writer::default();
    let mut runs = styled.runs.iter().peekable();
    let mut starts_line = true;
    let mut link = String::new();
    while let Some(run) = runs.next() {
        let style = &run.style;
        for line in run.text.split_inclusive('\n') {
            if starts_line && style.quote {
                writer.style(|_| false);
                writer.push(QUOTE);
            }
            writer.style(|kind| (kind.1)(style));
            writer.push(line);
            starts_line = line.ends_with('\n');
        }
        let Some(url) = &style.link else { continue };
        link.push_str(&run.text);
        if runs.peek().is_some_and(|next| next.style.link == style.link) {
            continue;
        }
        let shown = std::mem::take(&mut link);
        if !url.ends_with(shown.trim()) {
            writer.style(|_| false);
            writer.push(&format!(" ({url})"));
        }
    }
    writer.style(|_| false);
    writer.ranged
}

impl Writer {
    fn push(&mut self, text: &str) {
        self.ranged.text.push_str(text);
        self.units += text.encode_utf16().count();
    }

    /// Opens and closes what is not as it is to be.
    fn style(&mut self, wanted: impl Fn(&Kind) -> bool) {
        for (kind, open) in KINDS.iter().zip(&mut self.open) {
            match (wanted(kind), *open) {
                (true, None) => *open = Some(self.units),
                (false, Some(start)) => {
                    *open = None;
                    let length = self.units - start;
                    if length > 0 {
                        self.ranged.styles.push(format!("{start}:{length}:{}", kind.0));
                    }
                }
                (true, Some(_)) | (false, None) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::styled::read;

    #[test]
    fn styles_are_ranges_of_utf16_units() {
        let check = |markdown: &str, text: &str, styles: &[&str]| {
            let found = ranged(&read(markdown));
            assert_eq!(
                (found.text.as_str(), found.styles),
                (text, styles.iter().map(|one| (*one).to_owned()).collect()),
                "{markdown}"
            );
        };
        check("plain", "plain", &[]);
        check("😀 **hot** tea", "😀 hot tea", &["3:3:BOLD"]);
        check("**a *b* c**", "a b c", &["2:1:ITALIC", "0:5:BOLD"]);
        check(
            "`x` and\n\n```rust\nfn x() {}\n```",
            "x and\n\nfn x() {}",
            &["0:1:MONOSPACE", "7:9:MONOSPACE"],
        );
        check("~~no~~", "no", &["0:2:STRIKETHROUGH"]);
        check("> a\n> **b**\n\nmine", "> a\n> b\n\nmine", &["6:1:BOLD"]);
        check("[tea](https://a.example)!", "tea (https://a.example)!", &[]);
        check("**[a](https://x.example)** b", "a (https://x.example) b", &["0:1:BOLD"]);
        check("<https://a.example>", "https://a.example", &[]);
        check("- one\n  - two", "• one\n   • two", &[]);
    }
}
