//! The signals that ask the process to stop.

use std::{fs, future, io};

use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

/// A request to stop that came from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C in a terminal.
    Interrupt,
    /// SIGTERM: the supervisor, the container runtime or `kill`.
    Terminate,
    /// SIGHUP: the terminal was closed.
    Hangup,
}

/// Listens for SIGINT, SIGTERM and SIGHUP.
///
/// The first one means *stop in order*, a second one means *now*: race
/// [`Signals::wait_for_signal`] once for the beginning of the shutdown and once more against the
/// drain (see [`crate::Tasks::drain_or`]). One value serves both, so that a signal between the two
/// waits is not lost.
///
/// A SIGHUP that this process was started to ignore stays ignored: that is what `nohup` is for.
#[derive(Debug)]
pub struct Signals {
    interrupt: Listener,
    terminate: Listener,
    hangup: Option<Listener>,
}

impl Signals {
    /// Takes over these signals for the rest of the process's life.
    ///
    /// # Errors
    /// The operating system refused the handler.
    pub fn install() -> io::Result<Self> {
        // Where the system does not say, the signal keeps its meaning.
        let hangup = match fs::read_to_string("/proc/self/status") {
            Ok(status) if !ignores(&status, SignalKind::hangup()) => {
                Some(signal(SignalKind::hangup())?)
            }
            Ok(_) | Err(_) => None,
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup,
        })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn wait_for_signal(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            () = heard(self.hangup.as_mut()) => Signal::Hangup,
        }
    }
}

async fn heard(listener: Option<&mut Listener>) {
    match listener {
        Some(listener) => {
            let _none_is_lost = listener.recv().await;
        }
        None => future::pending().await,
    }
}

/// Whether a process whose status this is (proc(5)) ignores the signal.
fn ignores(status: &str, signal: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{self, Command};

    #[tokio::test]
    async fn each_of_the_three_signals_asks_to_stop() {
        let mut signals = Signals::install().unwrap();
        let all =
            [("-HUP", Signal::Hangup), ("-INT", Signal::Interrupt), ("-TERM", Signal::Terminate)];
        // These tests may run under `nohup` themselves.
        for (name, signal) in all.into_iter().skip(usize::from(is_under_nohup())) {
            let killed = Command::new("kill").args([name, &process::id().to_string()]).status();
            assert!(killed.unwrap().success());
            assert_eq!(signals.wait_for_signal().await, signal);
        }
    }

    #[test]
    fn a_hangup_that_is_ignored_stays_ignored() {
        let check = |started: [&str; 2], hangup: bool, interrupt: bool| {
            let output =
                Command::new("env").args(started).args(["cat", "/proc/self/status"]).output();
            let status = String::from_utf8(output.unwrap().stdout).unwrap();
            assert_eq!(ignores(&status, SignalKind::hangup()), hangup, "{status}");
            assert_eq!(ignores(&status, SignalKind::interrupt()), interrupt, "{status}");
        };
        // Said of both each time: these tests may be started to ignore either.
        check(["--default-signal=HUP", "--default-signal=INT"], false, false);
        check(["--ignore-signal=HUP", "--default-signal=INT"], true, false);
        check(["--default-signal=HUP", "--ignore-signal=INT"], false, true);
    }

    fn is_under_nohup() -> bool {
        ignores(&fs::read_to_string("/proc/self/status").unwrap(), SignalKind::hangup())
    }
}
