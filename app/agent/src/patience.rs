//! How long a turn waits for a provider that fails.
//!
//! Pauses grow, and add up to a minute and a half: an outage of half a minute is outlived with room
//! to spare. No two turns keep step, so that a provider which comes back is not met by all at once.
//! What a turn may lose in all is bounded, however many times it asks.

use famulus_core::{ids::TurnId, model::Disposition};
use std::time::Duration;

/// Seconds before each further try; the last of them before every one that follows.
const PAUSES: [u64; 7] = [1, 2, 4, 8, 15, 30, 30];
/// Tries after the first, unless told otherwise.
pub(crate) const RETRIES: u32 = PAUSES.len() as u32;

/// What is left of a turn's patience.
#[derive(Debug)]
pub(crate) struct Patience {
    turn: TurnId,
    left: Duration,
}

impl Patience {
    pub(crate) fn new(turn: TurnId, outage: Duration) -> Self {
        Self { turn, left: outage }
    }

    /// A try took so long and brought nothing.
    pub(crate) fn lose(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    /// How long to wait before the next try, or `None` when there is none.
    pub(crate) fn pause(
        &mut self,
        disposition: Disposition,
        tried: u32,
        retries: u32,
    ) -> Option<Duration> {
        let after = match disposition {
            Disposition::TellUser => return None,
            Disposition::Retry { after } => after.unwrap_or_default(),
        };
        if tried >= retries || self.left.is_zero() || after > self.left {
            return None;
        }
        let own = Duration::from_secs(PAUSES[(tried as usize).min(PAUSES.len() - 1)]);
        let spread = self.spread(tried);
        let pause = own.mul_f64(0.75 + spread / 2.0).max(after.mul_f64(1.0 + spread / 8.0));
        let pause = pause.min(self.left);
        self.lose(pause);
        Some(pause)
    }

    /// From 0 to 1, another one for each turn and try: the last seven bytes of its id are random.
    fn spread(&self, tried: u32) -> f64 {
        let byte = 9 + tried as usize % 7;
        f64::from(self.turn.0.as_bytes()[byte]) / 255.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::model::ModelError;
    use uuid::Uuid;

    /// One whose spread is a half, less than a hundredth.
    fn patience(left: u64) -> Patience {
        Patience::new(TurnId(Uuid::from_bytes([127; 16])), Duration::from_secs(left))
    }

    #[test]
    fn pauses_grow_and_end() {
        let mut patience = patience(1000);
        let pauses: Vec<_> =
            (0..10).map(|n| patience.pause(ModelError::Cut.disposition(), n, 9)).collect();
        let whole: Vec<_> = pauses.iter().map(|p| p.map(|p| p.as_secs_f64().round())).collect();
        let want = [1, 2, 4, 8, 15, 30, 30, 30, 30].map(|s: u8| Some(f64::from(s)));
        assert_eq!(whole[..9], want);
        assert_eq!(whole[9], None);
        assert_eq!(PAUSES.iter().sum::<u64>(), 90);
    }

    #[test]
    fn a_time_that_was_asked_for_is_kept_or_not_begun() {
        let check = |after, left, want: Option<std::ops::RangeInclusive<f64>>| {
            let busy = ModelError::Busy { status: 429, after: Some(Duration::from_secs(after)) };
            let pause =
                patience(left).pause(busy.disposition(), 0, 3).map(|pause| pause.as_secs_f64());
            match (pause, want) {
                (Some(pause), Some(want)) => assert!(want.contains(&pause), "{after}: {pause}"),
                (pause, want) => assert_eq!(pause.is_some(), want.is_some(), "{after}"),
            }
        };
        check(0, 900, Some(0.9..=1.1));
        check(5, 900, Some(5.0..=5.5));
        check(899, 900, Some(899.0..=900.0));
        check(901, 900, None);
        check(0, 0, None);
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        let refused = ModelError::Unauthorized { status: 401 };
        assert_eq!(patience(900).pause(refused.disposition(), 0, 3), None);
    }
}
