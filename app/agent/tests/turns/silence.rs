//! A model that says nothing more.

use crate::desk::{Desk, Peer, falls_silent};
use famulus_agent::Driven;
use famulus_core::turn::TurnState;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Trying to store what was said is no sign of life.
#[tokio::test(start_paused = true)]
async fn silence_counts_from_the_last_word_also_when_nothing_can_be_stored() {
    for storing in [true, false] {
        let mut desk = Desk::new();
        desk.timeouts.retries = 0;
        if !storing {
            desk.store_nothing();
        }
        let began = Instant::now();
        let driving =
            timeout(Duration::from_hours(1), desk.drive(Peer::new(|_, _| falls_silent())));
        let driven = driving.await.expect("silence ends the turn").unwrap();
        assert_eq!(driven, Driven::Ended(TurnState::Failed));
        assert_eq!(began.elapsed().as_secs(), 60, "storing: {storing}");
        assert_eq!(desk.ending().error.unwrap(), "the model was silent for 60 s");
    }
}
