//! A person at a terminal: what they type goes in, and what they would see stands on a screen.
//!
//! The program has the terminal to itself, as one that a shell started: a session of its own, the keys
//! of the line discipline, a size that changes.

use super::Client;
use parking_lot::Mutex;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, Command, ExitStatus},
    sync::Arc,
    time::{Duration, Instant},
};

/// What is not on the screen within this does not come.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);
/// A program that asks where the cursor is waits for an answer.
const WHERE: &[u8] = b"\x1b[6n";

pub(crate) struct Terminal {
    /// The end of the person.
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
    child: Child,
}

impl Terminal {
    /// Starts `famulus` with these arguments as this caller, on a screen of 80 columns and 40 rows.
    pub(crate) fn start(caller: &Client, home: &Path, arguments: &[&str]) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let keys = File::from(keys);
        let name = ptsname(&keys, Vec::new()).unwrap();
        let program =
            OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(40, 80, 1000)));
        resize(&keys, &screen, 80, 40);
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_famulus")])
            .args(arguments)
            .env_remove("FAMULUS_CONFIG")
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .env("FAMULUS_URL", format!("http://{}", caller.address))
            .env("FAMULUS_TOKEN", &caller.token)
            .env("FAMULUS_DATA_DIR", home)
            .stdin(program.try_clone().unwrap())
            .stdout(program.try_clone().unwrap())
            .stderr(program)
            .spawn()
            .unwrap_or_else(|error| panic!("`setsid` of util-linux cannot be run: {error}"));
        let terminal = Self { keys, screen, child };
        terminal.show();
        terminal
    }

    /// Has whatever the program writes appear on the screen, until nobody holds its end any more.
    fn show(&self) {
        let (mut output, screen) = (self.keys.try_clone().unwrap(), Arc::clone(&self.screen));
        std::thread::spawn(move || {
            let (mut piece, mut asked) = ([0; 4096], 0);
            while let Ok(count @ 1..) = output.read(&mut piece) {
                for byte in &piece[..count] {
                    let mut screen = screen.lock();
                    screen.process(&[*byte]);
                    asked = if *byte == WHERE[asked] {
                        asked + 1
                    } else {
                        usize::from(*byte == WHERE[0])
                    };
                    if asked == WHERE.len() {
                        asked = 0;
                        let (row, column) = screen.screen().cursor_position();
                        drop(screen);
                        let answer = format!("\x1b[{};{}R", row + 1, column + 1);
                        let _gone = output.write_all(answer.as_bytes());
                    }
                }
            }
        });
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// What stands on the screen.
    pub(crate) fn seen(&self) -> String {
        self.screen.lock().screen().contents()
    }

    /// Waits until this stands on the screen.
    pub(crate) async fn sees(&self, text: &str) -> String {
        self.until(&format!("{text:?} to be seen"), |seen| seen.contains(text)).await
    }

    /// Waits until the last line is a prompt with this behind it.
    pub(crate) async fn prompts(&self, typed: &str) -> String {
        let line = format!("› {typed}");
        let is_last = |seen: &str| {
            seen.trim_end().lines().last().is_some_and(|last| last.trim_end() == line.trim_end())
        };
        self.until(&format!("the prompt {line:?}"), is_last).await
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let seen = self.seen();
            if is_so(&seen) {
                return seen;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what} in:\n{seen}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Makes the window another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        resize(&self.keys, &self.screen, columns, rows);
    }

    /// Waits until the program has ended by itself.
    pub(crate) async fn ends(mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end:\n{}", self.seen());
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn resize(keys: &File, screen: &Mutex<vt100::Parser>, columns: u16, rows: u16) {
    screen.lock().screen_mut().set_size(rows, columns);
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(keys, size).unwrap();
}
