//! Brings lines that grow, and now and then shrink, onto a terminal.
//!
//! Pure: from what is on the screen and what should be, to the characters that make the one the
//! other. Growth is appended; a line that changed is erased together with all that follows it and
//! written anew. What has scrolled off the screen cannot be taken back: there the new text goes
//! on below a mark that says so.
//!
//! Lines have to be clean (see [`crate::clean`]): the widths are wrong otherwise.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

use crate::blocks::Line;

/// Stands between text that can no longer be erased and what replaces it.
const CUT: &str = "· the lines above were cut short and go on here:";

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// Whether dim lines are marked as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    On,
    Off,
}

/// What stands on the screen, from the first line that may still change.
#[derive(Debug)]
pub(crate) struct Painter {
    colour: Colour,
    /// Lines before those drawn; they stay as they are, whatever comes.
    settled: usize,
    drawn: Vec<Line>,
    /// Whether the cursor is at the start of an empty row below the last line, not at its end.
    below: bool,
}

impl Painter {
    pub(crate) fn new(colour: Colour) -> Self {
        Self { colour, settled: 0, drawn: Vec::new(), below: true }
    }

    /// The characters after which the screen shows `lines`.
    pub(crate) fn paint(&mut self, lines: &[Line], size: Size) -> String {
        let mut out = String::new();
        self.settled = self.settled.min(lines.len());
        let wanted = &lines[self.settled..];
        let same = self.drawn.iter().zip(wanted).take_while(|(old, new)| old == new).count();
        if same < self.drawn.len() {
            match wanted.get(same).and_then(|new| self.growth(same, new)) {
                Some(suffix) => {
                    self.write(&mut out, &suffix);
                    self.drawn[same].text.push_str(&suffix.text);
                }
                None => self.take_back(&mut out, same, size),
            }
        }
        for line in &lines[(self.settled + self.drawn.len()).min(lines.len())..] {
            if !std::mem::replace(&mut self.below, false) {
                out.push('\n');
            }
            self.write(&mut out, line);
            self.drawn.push(line.clone());
        }
        out
    }

    /// Ends the last line and leaves everything on the screen for good.
    pub(crate) fn settle(&mut self) -> String {
        self.settled += self.drawn.len();
        self.drawn.clear();
        if std::mem::replace(&mut self.below, true) { String::new() } else { "\n".to_owned() }
    }

    /// What to write behind the line at `index` to make it `new`: only the last line, with the
    /// cursor at its end, can grow.
    fn growth(&self, index: usize, new: &Line) -> Option<Line> {
        let old = &self.drawn[index];
        let can_grow = index + 1 == self.drawn.len() && !self.below && old.dim == new.dim;
        let suffix = new.text.strip_prefix(old.text.as_str()).filter(|_| can_grow)?;
        Some(Line { dim: new.dim, text: suffix.to_owned() })
    }

    /// Removes the drawn lines from `keep` on and puts the cursor where they began. Where that is
    /// out of reach, everything stays and the cursor goes below it.
    fn take_back(&mut self, out: &mut String, keep: usize, size: Size) {
        let rows: usize = self.drawn[keep..].iter().map(|line| rows(line, size.columns)).sum();
        let up = if self.below { rows } else { rows - 1 };
        if up >= size.rows {
            if !self.below {
                out.push('\n');
            }
            self.write(out, &Line { dim: true, text: CUT.to_owned() });
            out.push('\n');
            self.settled += keep;
            self.drawn.clear();
        } else {
            if up > 0 {
                // Writing to a String cannot fail.
                let _infallible = write!(out, "\x1b[{up}A");
            }
            out.push_str("\r\x1b[J");
            self.drawn.truncate(keep);
        }
        self.below = true;
    }

    fn write(&self, out: &mut String, line: &Line) {
        match self.colour {
            Colour::On if line.dim && !line.text.is_empty() => {
                let _infallible = write!(out, "\x1b[2m{}\x1b[0m", line.text);
            }
            Colour::On | Colour::Off => out.push_str(&line.text),
        }
    }
}

/// Rows that a line takes. A character that does not fit at the edge moves to the next row whole.
fn rows(line: &Line, columns: usize) -> usize {
    let columns = columns.max(2);
    let mut rows = 1;
    let mut column = 0;
    for width in line.text.chars().filter_map(UnicodeWidthChar::width) {
        if column + width > columns {
            rows += 1;
            column = 0;
        }
        column += width;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vt::Screen;
    use proptest::prelude::*;

    const SIZE: Size = Size { columns: 10, rows: 10 };

    fn lines(texts: &[&str]) -> Vec<Line> {
        texts
            .iter()
            .map(|text| Line { dim: text.starts_with('~'), text: (*text).to_owned() })
            .collect()
    }

    fn wrapped(lines: &[Line]) -> Vec<String> {
        let mut screen = Screen::new(SIZE);
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        screen.feed(&texts.join("\n"));
        screen.shown()
    }

    #[test]
    fn growth_is_appended_and_change_is_redrawn() {
        let check = |steps: &[&[&str]], expected: &[&str]| {
            let mut painter = Painter::new(Colour::Off);
            let written: Vec<String> =
                steps.iter().map(|step| painter.paint(&lines(step), SIZE)).collect();
            assert_eq!(written, expected, "{steps:?}");
        };
        check(&[&["Hel"], &["Hello"], &["Hello", "you"]], &["Hel", "lo", "\nyou"]);
        check(&[&["Hello"], &["Hello"]], &["Hello", ""]);
        check(&[&["Hello"], &["Help"]], &["Hello", "\r\x1b[JHelp"]);
        check(&[&["a", "b", "c"], &["a", "x"]], &["a\nb\nc", "\x1b[1A\r\x1b[Jx"]);
        check(&[&["a", "b"], &["a"], &["a!"]], &["a\nb", "\r\x1b[J", "\x1b[1A\r\x1b[Ja!"]);
        // Eleven columns take two rows of ten.
        check(&[&["0123456789A"], &["x"]], &["0123456789A", "\x1b[1A\r\x1b[Jx"]);
        check(&[&["0123456789"], &["x"]], &["0123456789", "\r\x1b[Jx"]);
    }

    #[test]
    fn dim_lines_are_marked_only_with_colour() {
        let paint = |colour| Painter::new(colour).paint(&lines(&["~tool", "text", ""]), SIZE);
        assert_eq!(paint(Colour::On), "\x1b[2m~tool\x1b[0m\ntext\n");
        assert_eq!(paint(Colour::Off), "~tool\ntext\n");
    }

    #[test]
    fn what_scrolled_away_is_not_touched() {
        let tall: Vec<String> = (0..14).map(|n| format!("line {n}")).collect();
        let tall: Vec<&str> = tall.iter().map(String::as_str).collect();
        let mut painter = Painter::new(Colour::Off);
        let mut screen = Screen::new(SIZE);
        screen.feed(&painter.paint(&lines(&tall), SIZE));
        screen.feed(&painter.paint(&lines(&["new", "text"]), Size { columns: 80, ..SIZE }));
        let shown = screen.shown().concat();
        assert!(shown.contains("line 0") && shown.contains("line 13"));
        assert!(shown.contains("cut short") && shown.ends_with("newtext"));
    }

    #[test]
    fn settled_lines_stay() {
        let mut painter = Painter::new(Colour::Off);
        assert_eq!(painter.paint(&lines(&["a", "b"]), SIZE), "a\nb");
        assert_eq!(painter.settle(), "\n");
        assert_eq!(painter.settle(), "");
        assert_eq!(painter.paint(&lines(&["a", "b", "c"]), SIZE), "c");
        // Even when they are taken back.
        assert_eq!(painter.paint(&lines(&["a"]), SIZE), "\r\x1b[J");
        assert_eq!(painter.paint(&lines(&["a", "z"]), SIZE), "z");
    }

    fn screenful() -> impl Strategy<Value = Vec<Line>> {
        prop::collection::vec(("[ab漢]{0,11}", any::<bool>()), 0..4)
            .prop_map(|lines| lines.into_iter().map(|(text, dim)| Line { dim, text }).collect())
    }

    proptest! {
        #[test]
        fn the_screen_shows_the_last_lines_painted(steps in prop::collection::vec(screenful(), 1..6)) {
            let mut painter = Painter::new(Colour::On);
            let mut screen = Screen::new(SIZE);
            for step in &steps {
                screen.feed(&painter.paint(step, SIZE));
                prop_assert_eq!(screen.shown(), wrapped(step));
            }
        }
    }
}
