//! The signals that ask the process to stop.

use std::io;

use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

/// A request to stop that came from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C in a terminal.
    Interrupt,
    /// SIGTERM: the supervisor, the container runtime or `kill`.
    Terminate,
}

/// Listens for SIGINT and SIGTERM.
///
/// The first one means *stop in order*, a second one means *now*: race
/// [`Signals::wait_for_signal`] once for the beginning of the shutdown and once more against the
/// drain (see [`crate::Tasks::drain_or`]). One value serves both, so that a signal between the two
/// waits is not lost.
///
/// SIGHUP keeps its meaning: replacing it would undo `nohup`.
#[derive(Debug)]
pub struct Signals {
    interrupt: Listener,
    terminate: Listener,
}

impl Signals {
    /// Takes over both signals for the rest of the process's life.
    ///
    /// # Errors
    /// The operating system refused the handler.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn wait_for_signal(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}
