//! As much of a terminal as this crate uses, for tests: everything that scrolled by is kept, and
//! a code that it does not know is a failure.

use unicode_width::UnicodeWidthChar as _;

use crate::paint::Size;

pub(crate) struct Screen {
    size: Size,
    rows: Vec<String>,
    row: usize,
    width: usize,
}

impl Screen {
    pub(crate) fn new(size: Size) -> Self {
        Self { size, rows: vec![String::new()], row: 0, width: 0 }
    }

    /// The rows, without the empty ones at the end.
    pub(crate) fn shown(&self) -> Vec<String> {
        let mut rows = self.rows.clone();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    pub(crate) fn feed(&mut self, text: &str) {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\n' => self.next_row(),
                '\r' => self.width = 0,
                '\x1b' => {
                    assert_eq!(chars.next(), Some('['), "an escape code that nobody made here");
                    let mut number = String::new();
                    let last = loop {
                        match chars.next().unwrap() {
                            digit @ '0'..='9' => number.push(digit),
                            other => break other,
                        }
                    };
                    self.obey(last, number.parse().unwrap_or(1));
                }
                c => {
                    let width = c.width().expect("a control character on the terminal");
                    if self.width + width > self.size.columns {
                        self.next_row();
                    }
                    self.rows[self.row].push(c);
                    self.width += width;
                }
            }
        }
    }

    fn next_row(&mut self) {
        self.row += 1;
        self.width = 0;
        self.rows.resize(self.rows.len().max(self.row + 1), String::new());
    }

    fn obey(&mut self, command: char, number: usize) {
        match command {
            'm' => {}
            'A' => {
                let top = self.rows.len().saturating_sub(self.size.rows);
                assert!(self.row - number >= top, "the cursor left the screen");
                self.row -= number;
            }
            'J' => {
                assert_eq!(self.width, 0);
                self.rows.truncate(self.row);
                self.rows.push(String::new());
            }
            other => panic!("unknown code {other}"),
        }
    }
}
