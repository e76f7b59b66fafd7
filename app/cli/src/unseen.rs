//! A line that is typed without being shown.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::error::Error;
use crate::input::Lines;
use crate::interrupts::Interrupts;
use crate::output::Output;

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Unseen<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> Unseen<'a> {
    fn begin(terminal: BorrowedFd<'a>) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO);
        // The end of the line is seen: what follows stands on the next.
        modes.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(terminal, OptionalActions::Flush, &modes)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        // Fails where the terminal is gone, and nothing is shown there.
        let _gone = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Asks at the terminal that is the standard input; nothing where the input ends or Ctrl-C is pressed.
pub(crate) async fn ask(question: &str, output: &mut Output) -> Result<Option<String>, Error> {
    let failed = |source| Error::Read { source };
    let stdin = io::stdin();
    // Ctrl-C must not leave a terminal behind that shows nothing.
    let mut interrupts = Interrupts::take_over().map_err(failed)?;
    let mut input = Lines::stdin()?;
    let unseen = Unseen::begin(stdin.as_fd()).map_err(failed)?;
    output.ask(question);
    let line = tokio::select! {
        line = input.next() => line?,
        () = interrupts.next() => None,
    };
    drop(unseen);
    if line.is_none() {
        output.end_question();
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    #[test]
    fn what_is_typed_is_seen_again_afterwards() {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let screen = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let shows = || tcgetattr(&screen).unwrap().local_modes.contains(LocalModes::ECHO);
        assert!(shows());
        let unseen = Unseen::begin(screen.as_fd()).unwrap();
        assert!(!shows());
        drop(unseen);
        assert!(shows());
    }
}
