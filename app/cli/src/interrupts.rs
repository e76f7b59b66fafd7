//! Ctrl-C, as something to wait for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Presses of Ctrl-C. One that nobody waited for yet is kept.
pub(crate) struct Interrupts {
    source: Source,
    repeated: bool,
}

enum Source {
    Keyboard(Signal),
    #[cfg(test)]
    Scripted(tokio::sync::mpsc::Receiver<()>),
}

impl Interrupts {
    /// Takes Ctrl-C over for the rest of the process's life.
    pub(crate) fn take_over() -> io::Result<Self> {
        let source = Source::Keyboard(signal(SignalKind::interrupt())?);
        Ok(Self { source, repeated: false })
    }

    #[cfg(test)]
    pub(crate) fn scripted(presses: tokio::sync::mpsc::Receiver<()>) -> Self {
        Self { source: Source::Scripted(presses), repeated: false }
    }

    /// Waits for the next press. Cancel safe.
    pub(crate) async fn next(&mut self) {
        if std::mem::take(&mut self.repeated) {
            return;
        }
        let pressed = match &mut self.source {
            Source::Keyboard(signal) => signal.recv().await,
            #[cfg(test)]
            Source::Scripted(presses) => presses.recv().await,
        };
        if pressed.is_none() {
            // No press will ever come.
            std::future::pending::<()>().await;
        }
    }

    /// Hands a press on to whoever waits next.
    pub(crate) fn repeat(&mut self) {
        self.repeated = true;
    }

    /// Drops presses that were meant for something that is over.
    pub(crate) fn forget(&mut self) {
        use futures::FutureExt as _;
        while self.next().now_or_never().is_some() {}
    }
}
