//! Output within bounds: the beginning of one stream, the end of the other.

use std::collections::VecDeque;

use super::Captured;

/// Keeps the first bytes and counts the rest.
#[derive(Debug)]
pub(super) struct Head {
    limit: usize,
    kept: Vec<u8>,
    cut: u64,
}

impl Head {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), cut: 0 }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let room = (self.limit - self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
        self.cut += (bytes.len() - room) as u64;
    }

    pub(super) fn finish(mut self) -> Captured {
        if self.cut > 0 {
            // A character that was cut in two is left out, not replaced.
            let whole = match std::str::from_utf8(&self.kept) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                Ok(_) | Err(_) => self.kept.len(),
            };
            self.cut += (self.kept.len() - whole) as u64;
            self.kept.truncate(whole);
        }
        Captured { text: lossy(self.kept), cut: self.cut }
    }
}

/// Keeps the last bytes and counts those before them.
#[derive(Debug)]
pub(super) struct Tail {
    limit: usize,
    kept: VecDeque<u8>,
    cut: u64,
}

impl Tail {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, kept: VecDeque::new(), cut: 0 }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let skipped = bytes.len().saturating_sub(self.limit);
        let bytes = &bytes[skipped..];
        let over = (self.kept.len() + bytes.len()).saturating_sub(self.limit);
        self.kept.drain(..over);
        self.kept.extend(bytes);
        self.cut += (skipped + over) as u64;
    }

    pub(super) fn finish(mut self) -> Captured {
        if self.cut > 0 {
            // Bytes that continue a character whose beginning is gone.
            while self.kept.front().is_some_and(|byte| byte & 0xC0 == 0x80) {
                self.kept.pop_front();
                self.cut += 1;
            }
        }
        Captured { text: lossy(self.kept.into()), cut: self.cut }
    }
}

/// Text of it, without a second copy when it is text already.
pub(super) fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_kept_and_the_rest_is_counted() {
        let check = |pieces: &[&str], text: &str, cut| {
            let mut head = Head::new(4);
            for piece in pieces {
                head.add(piece.as_bytes());
            }
            assert_eq!(head.finish(), Captured { text: text.into(), cut }, "{pieces:?}");
        };
        check(&[], "", 0);
        check(&["abcd"], "abcd", 0);
        check(&["ab", "cdef", "gh"], "abcd", 4);
        check(&["abcä"], "abc", 2);
        check(&["ab\u{20ac}", "x"], "ab", 4);
    }

    #[test]
    fn the_end_is_kept_and_what_was_before_is_counted() {
        let check = |pieces: &[&str], text: &str, cut| {
            let mut tail = Tail::new(4);
            for piece in pieces {
                tail.add(piece.as_bytes());
            }
            assert_eq!(tail.finish(), Captured { text: text.into(), cut }, "{pieces:?}");
        };
        check(&["abcd"], "abcd", 0);
        check(&["ab", "cd", "ef"], "cdef", 2);
        check(&["abcdefgh", "i"], "fghi", 5);
        check(&["xäbcd"], "bcd", 3);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut head = Head::new(10);
        head.add(&[b'a', 0xFF, b'b']);
        assert_eq!(head.finish().text, "a\u{FFFD}b");
    }
}
