//! A stream of numbered words, and when each of them was written by the model.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Before the digits of a number in a word.
pub(crate) const SIGN: u8 = b'#';
pub(crate) const DIGITS: usize = 6;

pub(crate) struct Pulse {
    pub(crate) count: usize,
    pub(crate) pace: Duration,
    /// Characters that follow the number.
    padding: String,
    written: Mutex<Vec<Option<Instant>>>,
}

impl Pulse {
    pub(crate) fn new(count: usize, pace: Duration, padding: usize) -> Self {
        let written = Mutex::new(vec![None; count]);
        Self { count, pace, padding: "x".repeat(padding), written }
    }

    pub(crate) fn word(&self, number: usize) -> String {
        format!("#{number:0DIGITS$}{} ", self.padding)
    }

    pub(crate) fn stamp(&self, number: usize, at: Instant) {
        let mut written = self.written.lock();
        if let Some(place) = written.get_mut(number) {
            *place = Some(at);
        }
    }

    pub(crate) fn written(&self) -> Vec<Option<Instant>> {
        self.written.lock().clone()
    }

    /// How long it takes at least.
    pub(crate) fn length(&self) -> Duration {
        self.pace * self.count as u32
    }
}
