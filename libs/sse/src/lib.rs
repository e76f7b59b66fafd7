//! Server-Sent Events, from bytes to events, incrementally and purely.
//!
//! The crate refuses to know what events mean, and does no IO.
//!
//! Invariants: the result does not depend on how the bytes were cut; what a peer may make the reader
//! hold is bounded by its [`Caps`].

/// The most that is held, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    pub line: usize,
    /// The data of one event, over all of its lines.
    pub event: usize,
}

/// Something the stream said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A line that begins with a colon: the peer shows that it lives.
    Comment,
    Event(Event),
}

/// One event as it was sent. The standard wants data in it, but a named one may be all that a peer
/// has to say (`event: reset`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The type; empty when the peer named none.
    pub name: String,
    /// As it came: whether it must be text is for the reader to say.
    pub data: Vec<u8>,
}

/// The parser is of no further use then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLong {
    #[error("a line of the event stream is longer than {0} bytes")]
    Line(usize),
    #[error("an event of the stream is longer than {0} bytes")]
    Event(usize),
}

/// Takes bytes as they arrive, cut anywhere.
#[derive(Debug)]
pub struct Parser {
    caps: Caps,
    line: Vec<u8>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// A line has been read: only the first may carry a byte order mark.
    begun: bool,
    name: String,
    data: Option<Vec<u8>>,
}

impl Parser {
    pub fn new(caps: Caps) -> Self {
        let (line, name) = (Vec::new(), String::new());
        Self { caps, line, after_cr: false, begun: false, name, data: None }
    }

    /// Takes what arrived and appends what became complete.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<Item>) -> Result<(), TooLong> {
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

    /// The stream has ended. What was sent without its closing blank line counts too: some servers
    /// leave it out behind their last event.
    pub fn finish(&mut self, out: &mut Vec<Item>) -> Result<(), TooLong> {
        if !self.line.is_empty() {
            self.end_line(out)?;
        }
        self.end_event(out);
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > self.caps.line {
            return Err(TooLong::Line(self.caps.line));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// An empty line ends an event; any other adds a field to it.
    fn end_line(&mut self, out: &mut Vec<Item>) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.end_event(out);
            return Ok(());
        }
        let (field, value) = match line.iter().position(|b| *b == b':') {
            Some(0) => {
                out.push(Item::Comment);
                return Ok(());
            }
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"data" => self.append(value)?,
            // Who wants the id has it in the data, and the pause before a new attempt is his choice.
            _ => {}
        }
        Ok(())
    }

    fn append(&mut self, value: &[u8]) -> Result<(), TooLong> {
        let held = self.data.as_ref().map_or(0, |data| data.len() + 1);
        if held + value.len() > self.caps.event {
            return Err(TooLong::Event(self.caps.event));
        }
        match &mut self.data {
            None => self.data = Some(value.to_owned()),
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
        }
        Ok(())
    }

    fn end_event(&mut self, out: &mut Vec<Item>) {
        let (name, data) = (std::mem::take(&mut self.name), self.data.take());
        if data.is_some() || !name.is_empty() {
            out.push(Item::Event(Event { name, data: data.unwrap_or_default() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAPS: Caps = Caps { line: 1 << 20, event: 3 << 19 };

    fn read(pieces: &[&[u8]]) -> Result<Vec<Item>, TooLong> {
        let (mut parser, mut out) = (Parser::new(CAPS), Vec::new());
        for piece in pieces {
            parser.feed(piece, &mut out)?;
        }
        parser.finish(&mut out)?;
        Ok(out)
    }

    fn event(data: &str) -> Item {
        named("", data)
    }

    fn named(name: &str, data: &str) -> Item {
        Item::Event(Event { name: name.to_owned(), data: data.into() })
    }

    #[test]
    fn lines_become_events() {
        let check = |bytes: &[u8], expected: &[Item]| {
            assert_eq!(read(&[bytes]).unwrap(), expected, "{:?}", String::from_utf8_lossy(bytes));
        };
        check(b"", &[]);
        check(b"data: a\n\n", &[event("a")]);
        check(b"data:a\n\ndata:  b\n\n", &[event("a"), event(" b")]);
        check(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", &[event("a"), event("b"), event("c")]);
        check(b": ping\n\n:\ndata: a\n\n", &[Item::Comment, Item::Comment, event("a")]);
        check(b"event: x\nid: 1\nretry: 3\ndata: a\n\n", &[named("x", "a")]);
        check(b"event: reset\n\ndata: a\n\n", &[named("reset", ""), event("a")]);
        check(b"data: a\ndata: b\n\n", &[event("a\nb")]);
        check(b"data: a\ndata:b\ndata\n\n", &[event("a\nb\n")]);
        check(b"data\n\n", &[event("")]);
        check("\u{feff}data: a\n\n".as_bytes(), &[event("a")]);
        check(b"data: [DONE]", &[event("[DONE]")]);
        check(b"data: a\n\n\n\n", &[event("a")]);
        check(b"unknown: x\ndata: a: b\n\n", &[event("a: b")]);
        let bytes = Event { name: "\u{fffd}".to_owned(), data: vec![0xff] };
        check(b"event: \xff\ndata: \xff\n\n", &[Item::Event(bytes)]);
    }

    #[test]
    fn what_never_ends_is_no_event() {
        let (mut parser, mut out) = (Parser::new(CAPS), Vec::new());
        parser.feed(b"event: a\ndata: never finished\n", &mut out).unwrap();
        assert_eq!(out, []);
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
        let (mut parser, mut out) = (Parser::new(CAPS), Vec::new());
        let piece = [b'x'; 4096];
        let fed = (0..10_000).take_while(|_| parser.feed(&piece, &mut out).is_ok()).count();
        assert_eq!(fed, CAPS.line / piece.len());
        assert_eq!(parser.feed(b"x", &mut out), Err(TooLong::Line(CAPS.line)));
    }

    #[test]
    fn an_event_of_many_lines_is_capped_too() {
        let line = format!("data: {}\n", "x".repeat(1 << 16));
        assert!(read(&[line.repeat(23).as_bytes()]).is_ok());
        assert_eq!(read(&[line.repeat(24).as_bytes()]), Err(TooLong::Event(CAPS.event)));
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
