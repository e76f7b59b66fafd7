//! Where a command writes: results to standard output, progress to standard error.
//!
//! A terminal gets nothing but clean text (see [`crate::clean`]) and the few escape codes that
//! this crate makes itself; anything else gets text as it is, and never an escape code.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use crate::clean::{clean, one_line};
use crate::error::Error;
use crate::paint::{Colour, Size};

/// What stands at the other end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Terminal(Size),
    Plain,
}

/// The two streams that a command writes to.
pub(crate) struct Output {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    out_kind: Box<dyn Fn() -> Kind + Send>,
    err_kind: Kind,
    colour: Colour,
}

/// What a terminal has whose size is not known.
const USUAL: Size = Size { columns: 80, rows: 24 };

impl Output {
    /// The streams of the process.
    pub(crate) fn standard(colour: Colour) -> Self {
        Self {
            out: Box::new(io::stdout()),
            err: Box::new(io::stderr()),
            // Asked each time: a window changes its size.
            out_kind: Box::new(|| kind(io::stdout())),
            err_kind: kind(io::stderr()),
            colour,
        }
    }

    #[cfg(test)]
    pub(crate) fn fake(
        out: Box<dyn Write + Send>,
        out_kind: Kind,
        err: Box<dyn Write + Send>,
        err_kind: Kind,
    ) -> Self {
        Self { out, err, out_kind: Box::new(move || out_kind), err_kind, colour: Colour::On }
    }

    pub(crate) fn colour(&self) -> Colour {
        self.colour
    }

    /// The size of the terminal that results go to, if it is one.
    pub(crate) fn screen(&self) -> Option<Size> {
        match (self.out_kind)() {
            Kind::Terminal(size) => Some(size),
            Kind::Plain => None,
        }
    }

    /// Whether progress is seen by somebody, and not logged.
    pub(crate) fn progress_is_seen(&self) -> bool {
        self.err_kind != Kind::Plain
    }

    /// Writes a result, ended by a line break.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Error> {
        let text = if self.screen().is_some() { clean(text) } else { text.to_owned() };
        let end = if text.ends_with('\n') { "" } else { "\n" };
        self.write(&format!("{text}{end}"))
    }

    /// Writes what the painter made: for a terminal only.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Error> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|source| Error::Write { source })
    }

    /// Writes one line of progress. That nobody can read it stops nothing.
    pub(crate) fn note(&mut self, text: &str) {
        let text = one_line(text);
        let line = match (self.err_kind, self.colour) {
            (Kind::Terminal(_), Colour::On) => format!("\x1b[2m{text}\x1b[0m\n"),
            (Kind::Terminal(_), Colour::Off) | (Kind::Plain, _) => format!("{text}\n"),
        };
        self.err(&line);
    }

    /// Writes one line that must not be overlooked to standard error.
    pub(crate) fn alert(&mut self, text: &str) {
        self.err(&format!("{}\n", one_line(text)));
    }

    /// Says what went wrong, where it stops nothing.
    pub(crate) fn complain(&mut self, error: &Error) {
        self.alert(&error.chain());
    }

    /// Asks on standard error, where the cursor stays behind the question.
    pub(crate) fn ask(&mut self, question: &str) {
        self.err(&clean(question));
    }

    /// Ends the line of a question that is not to be answered any more.
    pub(crate) fn end_question(&mut self) {
        self.err("\n");
    }

    fn err(&mut self, text: &str) {
        let _nobody_reads = self.err.write_all(text.as_bytes()).and_then(|()| self.err.flush());
    }
}

fn kind(stream: impl IsTerminal + AsFd) -> Kind {
    if !stream.is_terminal() {
        return Kind::Plain;
    }
    let size = rustix::termios::tcgetwinsize(stream)
        .ok()
        .filter(|size| size.ws_col > 0 && size.ws_row > 0)
        .map_or(USUAL, |size| Size {
            columns: usize::from(size.ws_col),
            rows: usize::from(size.ws_row),
        });
    Kind::Terminal(size)
}
