//! Server-Sent Events, from bytes to events.
//!
//! Knows the format and nothing of what the events mean. What a peer may make it hold is bounded:
//! a line and the data of one event have caps, beyond which the stream is refused.

/// The longest line: a reply that arrives whole in one event has to fit.
const LINE_CAP: usize = 8 * 1024 * 1024;
/// The most data of one event, over all of its lines.
const DATA_CAP: usize = 16 * 1024 * 1024;

/// One event as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The type; `message` when the peer named none.
    pub(crate) name: String,
    pub(crate) data: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    #[error("a line of the event stream is longer than {LINE_CAP} bytes")]
    LineTooLong,
    #[error("an event of the stream is longer than {DATA_CAP} bytes")]
    EventTooLong,
    #[error("the event stream is not UTF-8")]
    NotText,
}

/// Takes bytes as they arrive, cut anywhere, and gives the events that they complete.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    began: bool,
    name: String,
    data: String,
    has_data: bool,
}

impl Parser {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, SseError> {
        let mut events = Vec::new();
        for &byte in bytes {
            let second_half = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if second_half => {}
                b'\n' | b'\r' => events.extend(self.end_line()?),
                _ if self.line.len() >= LINE_CAP => return Err(SseError::LineTooLong),
                _ => self.line.push(byte),
            }
        }
        Ok(events)
    }

    /// An empty line ends an event; any other adds a field to it.
    fn end_line(&mut self) -> Result<Option<SseEvent>, SseError> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&bytes).map_err(|_| SseError::NotText)?;
        if !std::mem::replace(&mut self.began, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.data.len() + value.len() >= DATA_CAP {
                    return Err(SseError::EventTooLong);
                }
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            // An empty field name is a comment: a ping. The id stands in the data too, and the
            // pause before a new attempt is ours to choose.
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        // An event without data is none by the standard, but a named one may be all that a peer
        // has to say (`event: reset`).
        let is_event = std::mem::take(&mut self.has_data) || !name.is_empty();
        let name = if name.is_empty() { "message".to_owned() } else { name };
        is_event.then_some(SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent { name: name.to_owned(), data: data.to_owned() }
    }

    fn parse(text: &str) -> Vec<SseEvent> {
        Parser::default().push(text.as_bytes()).unwrap()
    }

    #[test]
    fn fields_make_events() {
        let check = |text: &str, expected: &[SseEvent]| assert_eq!(parse(text), expected, "{text}");
        check("data: a\n\n", &[event("message", "a")]);
        check("id: 1-2\nevent: delta\ndata: {}\n\n", &[event("delta", "{}")]);
        check("data: a\ndata:b\ndata\n\n", &[event("message", "a\nb\n")]);
        check(": ping\n\n: ping\n\n", &[]);
        check("event: reset\n\n", &[event("reset", "")]);
        check("data: a\r\n\r\ndata: b\r\r", &[event("message", "a"), event("message", "b")]);
        check("\u{feff}data: a\n\n", &[event("message", "a")]);
        check("data: never finished\n", &[]);
        check("unknown: x\nretry: 5\ndata: a: b\n\n", &[event("message", "a: b")]);
    }

    #[test]
    fn what_a_peer_may_make_us_hold_is_bounded() {
        let mut parser = Parser::default();
        let line = vec![b'x'; LINE_CAP];
        assert_eq!(parser.push(&line), Ok(vec![]));
        assert_eq!(parser.push(b"x"), Err(SseError::LineTooLong));

        let mut parser = Parser::default();
        let mut line = b"data: ".to_vec();
        line.extend(vec![b'x'; DATA_CAP / 2]);
        line.truncate(LINE_CAP);
        line.push(b'\n');
        assert_eq!(parser.push(&line), Ok(vec![]));
        assert_eq!(parser.push(&line), Ok(vec![]));
        assert_eq!(parser.push(&line), Err(SseError::EventTooLong));
    }

    #[test]
    fn bytes_that_are_not_text_are_refused() {
        assert_eq!(Parser::default().push(b"data: \xff\n"), Err(SseError::NotText));
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_does_not_matter(cuts in prop::collection::vec(0usize..80, 0..6)) {
            let text = "\u{feff}id: 1-1\r\nevent: delta\r\ndata: é漢\r\n\r\n: p\n\ndata: x\rdata: y\r\r";
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(text.len())).collect();
            cuts.sort_unstable();
            let mut parser = Parser::default();
            let mut events = Vec::new();
            let mut from = 0;
            for to in cuts.into_iter().chain([text.len()]) {
                events.extend(parser.push(&text.as_bytes()[from..to]).unwrap());
                from = to;
            }
            prop_assert_eq!(events, parse(text));
        }
    }
}
