//! Words to the person at the terminal. Logs go to standard error; this is for people.

use std::io::{self, IsTerminal, Write};

/// Prints a line on standard output; a reader that went away is no error.
pub(crate) fn line(text: &str) {
    let _gone = writeln!(io::stdout().lock(), "{text}");
}

/// Whether somebody sits in front of standard output.
pub(crate) fn is_to_a_person() -> bool {
    io::stdout().is_terminal()
}
