//! Server-sent events, read incrementally and purely.
//!
//! Refuses to know what the events mean. The result does not depend on how the bytes were cut.

/// Longest line, and longest event, that is held: 1 MiB. A server that sends more is not one that
/// streams, and memory stays bounded.
pub(crate) const CAP: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SseItem {
    /// A line that begins with a colon: the server shows that it lives.
    Comment,
    Event(String),
}

/// A line or an event exceeded [`CAP`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// A line has been read: only the first may carry a byte order mark.
    begun: bool,
    data: Option<String>,
}

impl SseParser {
    /// Takes what arrived and appends what became complete.
    ///
    /// # Errors
    /// [`TooLong`]; the parser is of no further use then.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<SseItem>) -> Result<(), TooLong> {
        if self.after_cr
            && let Some((first, rest)) = bytes.split_first()
        {
            self.after_cr = false;
            if *first == b'\n' {
                bytes = rest;
            }
        }
        while let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            self.hold(&bytes[..end])?;
            let was_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if was_cr {
                match bytes.split_first() {
                    Some((b'\n', rest)) => bytes = rest,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.end_line(out)?;
        }
        self.hold(bytes)
    }

    /// The stream has ended. What was sent without its closing blank line counts too: servers
    /// leave it out behind their last event.
    pub(crate) fn finish(&mut self, out: &mut Vec<SseItem>) -> Result<(), TooLong> {
        if !self.line.is_empty() {
            self.end_line(out)?;
        }
        self.dispatch(out);
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > CAP {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<SseItem>) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(out);
            return Ok(());
        }
        let (field, value) = match line.iter().position(|b| *b == b':') {
            Some(0) => {
                out.push(SseItem::Comment);
                return Ok(());
            }
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        // `event`, `id` and `retry` say nothing in this protocol.
        if field == b"data" {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            self.append(&String::from_utf8_lossy(value))?;
        }
        Ok(())
    }

    fn append(&mut self, value: &str) -> Result<(), TooLong> {
        match &mut self.data {
            None => self.data = Some(value.to_owned()),
            Some(data) => {
                if data.len() + 1 + value.len() > CAP {
                    return Err(TooLong);
                }
                data.push('\n');
                data.push_str(value);
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, out: &mut Vec<SseItem>) {
        if let Some(data) = self.data.take() {
            out.push(SseItem::Event(data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<SseItem>, TooLong> {
        let (mut parser, mut out) = (SseParser::default(), Vec::new());
        for piece in pieces {
            parser.feed(piece, &mut out)?;
        }
        parser.finish(&mut out)?;
        Ok(out)
    }

    fn event(data: &str) -> SseItem {
        SseItem::Event(data.to_owned())
    }

    #[test]
    fn lines_become_events() {
        let check = |bytes: &str, expected: &[SseItem]| {
            assert_eq!(read(&[bytes.as_bytes()]).unwrap(), expected, "{bytes:?}");
        };
        check("", &[]);
        check("data: a\n\n", &[event("a")]);
        check("data:a\n\ndata:  b\n\n", &[event("a"), event(" b")]);
        check("data: a\r\n\r\ndata: b\r\rdata: c\n\n", &[event("a"), event("b"), event("c")]);
        check(": ping\n\n:\ndata: a\n\n", &[SseItem::Comment, SseItem::Comment, event("a")]);
        check("event: x\nid: 1\nretry: 3\ndata: a\n\n", &[event("a")]);
        check("data: a\ndata: b\n\n", &[event("a\nb")]);
        check("data\n\n", &[event("")]);
        check("\u{feff}data: a\n\n", &[event("a")]);
        check("data: [DONE]", &[event("[DONE]")]);
        check("data: a\n\n\n\n", &[event("a")]);
    }

    #[test]
    fn every_cut_reads_alike() {
        let whole = "\u{feff}: hi\r\ndata: {\"t\":\"ä漢🦀\"}\r\n\r\n:\n\
                     data: x\r\rdata: a\ndata: b\n\nevent: e\ndata: [DONE]";
        let expected = read(&[whole.as_bytes()]).unwrap();
        assert_eq!(expected.len(), 6);
        for first in 0..=whole.len() {
            let (head, tail) = whole.as_bytes().split_at(first);
            assert_eq!(read(&[head, tail]).unwrap(), expected, "cut at {first}");
            for second in 0..=tail.len() {
                let (middle, tail) = tail.split_at(second);
                assert_eq!(read(&[head, middle, tail]).unwrap(), expected);
            }
        }
        let bytes: Vec<&[u8]> = whole.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes).unwrap(), expected);
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let (mut parser, mut out) = (SseParser::default(), Vec::new());
        let piece = [b'x'; 4096];
        let fed = (0..10_000).take_while(|_| parser.feed(&piece, &mut out).is_ok()).count();
        assert_eq!(fed, CAP / piece.len());
    }

    #[test]
    fn an_event_of_many_lines_is_capped_too() {
        let line = format!("data: {}\n", "x".repeat(1 << 16));
        assert_eq!(read(&[line.repeat(17).as_bytes()]), Err(TooLong));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12)) {
            let whole: Vec<u8> = pieces.concat();
            let cut: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(read(&cut).unwrap(), read(&[&whole]).unwrap());
        }
    }
}
