//! Cutting a text into pieces that a platform takes.

use super::{Run, Style, Styled};
use famulus_core::outbound::Limit;
use unicode_segmentation::GraphemeCursor;

/// Places to cut at, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seam {
    Paragraph,
    Line,
    LineOfCode,
    Sentence,
    Word,
}

const SEAMS: [Seam; 5] =
    [Seam::Paragraph, Seam::Line, Seam::LineOfCode, Seam::Sentence, Seam::Word];

/// Cuts a text so that no piece is over the limit. What stands at a seam, line breaks or a space, is
/// left out; nothing else is.
pub(crate) fn split(styled: &Styled, limit: Limit) -> Vec<Styled> {
    let text = styled.text();
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let rest = &text[start..];
        let fits = limit.fits(rest);
        let (end, next) = if fits == rest.len() {
            (text.len(), text.len())
        } else {
            let (end, next) = cut(styled, &text, start, start + fits);
            (end, next)
        };
        let piece = slice(styled, start, end);
        if !piece.text().trim().is_empty() {
            pieces.push(piece);
        }
        start = next;
    }
    pieces
}

/// Where a piece that begins at `start` and may reach to `most` ends, and where the next one begins.
fn cut(styled: &Styled, text: &str, start: usize, most: usize) -> (usize, usize) {
    // A seam in the first half would make many short pieces.
    let half = start + (most - start) / 2;
    let mut fallback = None;
    for seam in SEAMS {
        let Some((end, next)) = last(styled, text, start, most, seam) else { continue };
        if end >= half {
            return (end, next);
        }
        fallback = fallback.or(Some((end, next)));
    }
    // One long word: between two characters as people see them.
    fallback.unwrap_or_else(|| {
        let mut cursor = GraphemeCursor::new(most, text.len(), true);
        let whole = cursor.is_boundary(text, 0).unwrap_or(true);
        let before = if whole { Some(most) } else { cursor.prev_boundary(text, 0).ok().flatten() };
        // A single one that is over the limit by itself is cut all the same.
        let end = before.filter(|end| *end > start).unwrap_or(most);
        (end, end)
    })
}

/// The last seam of a kind that leaves something before it.
fn last(
    styled: &Styled,
    text: &str,
    start: usize,
    most: usize,
    seam: Seam,
) -> Option<(usize, usize)> {
    let found = |pattern: &str, kept: usize| {
        let window = &text[start..ceiling(text, most + pattern.len())];
        window.rmatch_indices(pattern).find_map(|(at, _)| {
            let end = start + at + kept;
            let next = start + at + pattern.len();
            let fits = end <= most && end > start;
            (fits && seam.is_at(styled, end)).then_some((end, next))
        })
    };
    match seam {
        Seam::Paragraph => found("\n\n", 0),
        Seam::Line | Seam::LineOfCode => found("\n", 0),
        Seam::Sentence => [". ", "! ", "? ", "。", "… "]
            .into_iter()
            .filter_map(|mark| found(mark, mark.trim_end().len()))
            .max(),
        Seam::Word => found(" ", 0),
    }
}

impl Seam {
    /// Whether it may be used here: the lines of code are kept together while something else is found.
    fn is_at(self, styled: &Styled, place: usize) -> bool {
        let is_code = style_at(styled, place).is_some_and(|style| style.block.is_some());
        match self {
            Self::Paragraph | Self::Line | Self::Sentence => !is_code,
            Self::LineOfCode => is_code,
            Self::Word => true,
        }
    }
}

fn style_at(styled: &Styled, place: usize) -> Option<&Style> {
    let mut end = 0;
    styled.runs.iter().find_map(|run| {
        end += run.text.len();
        (place < end).then_some(&run.style)
    })
}

fn slice(styled: &Styled, start: usize, end: usize) -> Styled {
    let mut piece = Styled::default();
    let mut at = 0;
    for Run { text, style } in &styled.runs {
        let (from, to) = (start.max(at), end.min(at + text.len()));
        if from < to {
            piece.push(&text[from - at..to - at], style);
        }
        at += text.len();
    }
    piece
}

/// The next place between two characters.
fn ceiling(text: &str, place: usize) -> usize {
    let mut place = place.min(text.len());
    while !text.is_char_boundary(place) {
        place += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::styled::read;
    use famulus_core::outbound::Unit;

    fn pieces(markdown: &str, most: u32) -> Vec<String> {
        let limit = Limit { most, unit: Unit::Utf16 };
        split(&read(markdown), limit).iter().map(Styled::text).collect()
    }

    #[test]
    fn a_text_is_cut_at_the_best_seam() {
        let check = |markdown: &str, most, expected: &[&str]| {
            assert_eq!(pieces(markdown, most), expected, "{markdown}");
        };
        check("short", 10, &["short"]);
        check("one two\n\nthree four", 12, &["one two", "three four"]);
        check("It is hot. Take care now.", 16, &["It is hot.", "Take care now."]);
        check("one two three four", 9, &["one two", "three", "four"]);
        check("abcdefghij", 4, &["abcd", "efgh", "ij"]);
        // A family is one character of eleven units: it is not torn apart.
        check("ab👨‍👩‍👧‍👦cd", 12, &["ab", "👨‍👩‍👧‍👦c", "d"]);
        check("```\nab\ncd\nef\n```", 6, &["ab\ncd", "ef"]);
        check("   \n\n", 3, &[]);
    }

    #[test]
    fn each_piece_has_the_styles_that_it_goes_on_with() {
        let limit = Limit { most: 8, unit: Unit::Bytes };
        let pieces = split(&read("**one two three**"), limit);
        assert_eq!(pieces.len(), 2);
        assert!(pieces.iter().all(|piece| piece.runs.iter().all(|run| run.style.bold)));
    }
}
