//! Columns of text for people.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::clean::one_line;

/// Columns are set apart by this many spaces.
const GAP: usize = 2;

/// Aligns rows under a heading. The last column is as wide as it likes.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let cells: Vec<Vec<String>> =
        std::iter::once(heading.iter().map(|c| (*c).to_owned()).collect())
            .chain(rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()))
            .collect();
    let width_of = |column: usize| {
        cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width_of).collect();
    let mut text = String::new();
    for row in &cells {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.width().min(*width) + GAP));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A value without the quotes of JSON.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// `name  value` lines.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let widest = pairs.iter().map(|(name, _)| name.width()).max().unwrap_or(0) + GAP;
    let line = |(name, value): &(&str, String)| {
        let gap = " ".repeat(widest - name.width());
        [*name, &gap, &one_line(value), "\n"].concat()
    };
    pairs.iter().map(line).collect()
}

/// At most `columns` wide; what is cut off is marked.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    let text = one_line(text);
    if text.width() <= columns {
        return text;
    }
    let mut short = String::new();
    for c in text.chars() {
        let mut longer = short.clone();
        longer.push(c);
        if longer.width() >= columns {
            break;
        }
        short = longer;
    }
    format!("{}…", short.trim_end())
}

/// Seconds as people say them.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (large, unit, small, part) = match whole {
        0..60 => return format!("{whole} s"),
        60..3600 => (whole / 60, "min", whole % 60, "s"),
        3600..86_400 => (whole / 3600, "h", whole % 3600 / 60, "min"),
        _ => (whole / 86_400, "d", whole % 86_400 / 3600, "h"),
    };
    match small {
        0 => format!("{large} {unit}"),
        small => format!("{large} {unit} {small} {part}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let rows = vec![
            vec!["漢字".to_owned(), "1".to_owned(), "a\nb".to_owned()],
            vec!["abc\u{1b}".to_owned(), "22".to_owned(), String::new()],
        ];
        assert_eq!(
            table(&["name", "n", "note"], &rows),
            "name  n   note\n漢字  1   a b\nabc␛  22\n"
        );
        assert_eq!(pairs(&[("a", "1".into()), ("long", "2".into())]), "a     1\nlong  2\n");
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("too long", 5), "too…");
        assert_eq!(shorten("漢字漢字", 5), "漢字…");
    }

    #[test]
    fn amounts_are_said_in_fitting_units() {
        let check = |seconds, expected: &str| assert_eq!(duration(seconds), expected);
        check(0.4, "0 s");
        check(61.0, "1 min 1 s");
        check(7260.0, "2 h 1 min");
        check(900.0, "15 min");
        check(90_000.0, "1 d 1 h");
    }
}
