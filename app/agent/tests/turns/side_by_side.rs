//! Calls of one step.

use crate::{
    desk::Desk,
    peer::{Peer, looks, says},
};
use famulus_agent::Driven;
use famulus_core::turn::TurnState;
use std::time::Duration;
use tokio::time::timeout;

/// Each of the calls ends only once all of them run.
#[tokio::test(start_paused = true)]
async fn calls_of_one_step_run_at_the_same_time() {
    let desk = Desk::new();
    desk.meet(5);
    let peer = Peer::new(|asked, _| if asked == 0 { looks(5, 0) } else { says("All seen.") });
    let driven = timeout(Duration::from_mins(1), desk.drive(peer)).await;
    assert_eq!(driven.expect("they meet").unwrap(), Driven::Ended(TurnState::Complete));
}
