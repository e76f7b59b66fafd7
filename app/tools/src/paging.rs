//! Long answers in pieces, each well below the cap on outputs.

use serde_json::Value;

/// Characters of JSON in one piece; what stands around it fits into the rest of the cap.
const PIECE: usize = 12_000;

/// Entries from `offset` on, as many as fit but at least one, and where the rest begins.
pub(crate) fn entries(all: Vec<Value>, offset: usize) -> (Vec<Value>, Option<usize>) {
    let total = all.len();
    let mut taken = Vec::new();
    let mut used = 0;
    for entry in all.into_iter().skip(offset) {
        used += entry.to_string().chars().count() + 1;
        if used > PIECE && !taken.is_empty() {
            break;
        }
        taken.push(entry);
    }
    let next = offset + taken.len();
    (taken, (next < total).then_some(next))
}

/// The characters from `offset` on, as many as fit, and where the rest begins.
pub(crate) fn text(all: &str, offset: usize) -> (String, Option<usize>) {
    let mut piece = String::new();
    let mut used = 0;
    for (taken, c) in all.chars().skip(offset).enumerate() {
        used += escaped_length(c);
        if used > PIECE {
            return (piece, Some(offset + taken));
        }
        piece.push(c);
    }
    (piece, None)
}

/// Characters that JSON writes for one.
fn escaped_length(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_whole_in_pieces() {
        let all: String = (0..30_000).map(|n| if n % 7 == 0 { '\n' } else { 'ä' }).collect();
        let (mut read, mut offset, mut pieces) = (String::new(), Some(0), 0);
        while let Some(from) = offset {
            let (piece, next) = text(&all, from);
            assert!(serde_json::to_string(&piece).unwrap().chars().count() <= PIECE + 2);
            read.push_str(&piece);
            (offset, pieces) = (next, pieces + 1);
        }
        assert_eq!((read == all, pieces), (true, 3));
        assert_eq!(text("short", 0), ("short".into(), None));
        assert_eq!(text("short", 9), (String::new(), None));
    }

    #[test]
    fn entries_come_in_pieces_of_at_least_one() {
        let all: Vec<Value> = (0..10).map(|_| Value::String("x".repeat(5_000))).collect();
        let (first, next) = entries(all.clone(), 0);
        assert_eq!((first.len(), next), (2, Some(2)));
        let (last, next) = entries(all, 8);
        assert_eq!((last.len(), next), (2, None));
        let (huge, next) = entries(vec![Value::String("x".repeat(50_000)), Value::Null], 0);
        assert_eq!((huge.len(), next), (1, Some(1)));
        assert_eq!(entries(Vec::new(), 3), (Vec::new(), None));
    }
}
