//! Where a call may run now.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::home::Home;

/// To whom a call was perhaps sent.
pub(crate) struct DispatchState<H: Home>(Mutex<Option<Sent<H>>>);

pub(crate) type Sent<H> = (Arc<<H as Home>::Plugin>, Arc<<H as Home>::Runner>);

impl<H: Home> DispatchState<H> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn sent(&self, known: &Arc<H::Plugin>, runner: &Arc<H::Runner>) {
        *self.0.lock() = Some((Arc::clone(known), Arc::clone(runner)));
    }

    /// It was not heard, or its answer was given.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }

    pub(crate) fn read(&self) -> Option<Sent<H>> {
        self.0.lock().clone()
    }
}
