//! One turn on its way to the eyes or the file of whoever asked.
//!
//! A terminal sees the reply grow, with progress between its lines. Anything else gets the reply
//! once, whole and final, because what was written to a pipe cannot be taken back; progress goes
//! to standard error as it happens.

use std::time::Duration;

use tokio::time::Instant;

use crate::blocks::View;
use crate::error::Error;
use crate::output::Output;
use crate::paint::Painter;
use crate::transcript::Transcript;

/// Deltas that arrive within this time are painted together: faster than eyes, slower than models.
const FRAME: Duration = Duration::from_millis(25);

pub(crate) struct Show {
    view: View,
    painter: Option<Painter>,
    /// Notes that were written to standard error.
    noted: usize,
    dirty: bool,
    last: Instant,
}

impl Show {
    pub(crate) fn new(output: &Output, reasoning: bool) -> Self {
        let on_screen = output.screen().is_some();
        // Notes between the lines of the reply only where both go to a terminal; else each stream
        // keeps to itself.
        let view = View { notes: on_screen && output.progress_is_seen(), reasoning };
        Self {
            view,
            painter: on_screen.then(|| Painter::new(output.colour())),
            noted: 0,
            dirty: true,
            last: Instant::now(),
        }
    }

    pub(crate) fn touch(&mut self) {
        self.dirty = true;
    }

    /// When the next frame is due, if there is anything new.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.dirty.then(|| self.last + FRAME)
    }

    /// Brings what is new before the reader.
    pub(crate) fn paint(&mut self, turn: &Transcript, output: &mut Output) -> Result<(), Error> {
        self.dirty = false;
        self.last = Instant::now();
        if let (Some(painter), Some(size)) = (&mut self.painter, output.screen()) {
            let lines = turn.lines(self.view);
            output.write(&painter.paint(&lines, size))?;
        }
        if !self.view.notes {
            let notes = turn.notes(self.view);
            self.noted = self.noted.min(notes.len());
            for note in &notes[self.noted..] {
                output.note(note);
            }
            self.noted = notes.len();
        }
        Ok(())
    }

    /// Makes room below for something that is no part of the turn.
    pub(crate) fn settle(&mut self, output: &mut Output) -> Result<(), Error> {
        match &mut self.painter {
            Some(painter) => output.write(&painter.settle()),
            None => Ok(()),
        }
    }

    /// The last of it.
    pub(crate) fn finish(&mut self, turn: &Transcript, output: &mut Output) -> Result<(), Error> {
        self.paint(turn, output)?;
        self.settle(output)?;
        let reply = turn.reply();
        if self.painter.is_none() && !reply.trim().is_empty() {
            output.print(&reply)?;
        }
        Ok(())
    }
}
