//! A provider that fails for a while, and one that fails for good.

use crate::{
    desk::Desk,
    peer::{Peer, fails, falls_silent, looks, says},
};
use famulus_agent::Driven;
use famulus_core::{
    model::{ModelError, ModelStream},
    turn::TurnState,
};
use std::time::Duration;
use tokio::time::Instant;

const DONE: Driven = Driven::Ended(TurnState::Complete);
const FAILED: Driven = Driven::Ended(TurnState::Failed);

fn busy(after: Option<u64>) -> ModelError {
    ModelError::Busy { status: 503, after: after.map(Duration::from_secs) }
}

/// Every way in which a provider is away.
const AWAY: [fn() -> ModelError; 6] = [
    || busy(None),
    || busy(Some(0)),
    || busy(Some(1)),
    || ModelError::Failed { status: 502, message: "bad gateway".into() },
    || ModelError::Unreachable { url: "http://peer".into(), source: "refused".into() },
    || ModelError::Cut,
];

#[tokio::test(start_paused = true)]
async fn an_outage_of_half_a_minute_is_outlived() {
    for error in AWAY {
        for _ in 0..20 {
            let back = Instant::now() + Duration::from_secs(30);
            let peer =
                Peer::new(
                    move |_, _| {
                        if Instant::now() < back { fails(error()) } else { says("Here I am.") }
                    },
                );
            let desk = Desk::new();
            assert_eq!(desk.drive(peer).await.unwrap(), DONE, "{}", error());
            assert!(back.elapsed() < Duration::from_mins(1), "{:?}", back.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_add_up_to_ninety_seconds_or_so_and_no_two_turns_keep_step() {
    let mut took = Vec::new();
    for _ in 0..100 {
        let peer = Peer::new(|_, _| fails(busy(None)));
        let (desk, began) = (Desk::new(), Instant::now());
        assert_eq!(desk.drive(peer.clone()).await.unwrap(), FAILED);
        assert_eq!((peer.asked(), desk.told().len()), (8, 7), "each pause is told");
        took.push(began.elapsed().as_secs_f64());
    }
    let all: f64 = took.iter().sum();
    assert!(took.iter().all(|took| (67.0..113.0).contains(took)), "{took:?}");
    assert!((85.0..95.0).contains(&(all / 100.0)), "{took:?}");
    took.sort_by(f64::total_cmp);
    took.dedup();
    assert!(took.len() > 90, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_names_a_time_is_not_asked_before_it() {
    for seconds in [5, 50, 500] {
        let began = Instant::now();
        let peer =
            Peer::new(
                move |asked, _| {
                    if asked == 0 { fails(busy(Some(seconds))) } else { says("Thank you.") }
                },
            );
        assert_eq!(Desk::new().drive(peer).await.unwrap(), DONE);
        let took = began.elapsed().as_secs_f64() / seconds as f64;
        assert!((1.0..1.2).contains(&took), "{seconds}: {took}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_beyond_the_turns_patience_ends_it_at_once_and_is_told() {
    let (desk, began) = (Desk::new(), Instant::now());
    let driven = desk.drive(Peer::new(|_, _| fails(busy(Some(3600))))).await.unwrap();
    assert_eq!((driven, began.elapsed()), (FAILED, Duration::ZERO));
    let error = desk.ending().error.unwrap();
    assert_eq!(
        error,
        "the model provider asks to slow down (status 503), and to be asked again after 3600 s"
    );
}

/// A model that is asked many times in a turn could otherwise be waited for each time.
#[tokio::test(start_paused = true)]
async fn a_turn_loses_no_more_than_its_cap_to_a_provider_that_fails() {
    let check = async |plan: fn(usize) -> ModelStream, least: u64, most: u64| {
        let began = Instant::now();
        let peer = Peer::new(move |asked, _| plan(asked));
        assert_eq!(Desk::new().drive(peer).await.unwrap(), FAILED);
        let took = began.elapsed().as_secs();
        assert!((least..=most).contains(&took), "{took} s");
    };
    // Seven failures before each step: each time the last try is the one that succeeds.
    let tired = |asked| if asked % 8 == 7 { looks(1, asked) } else { fails(busy(None)) };
    check(tired, 890, 910).await;
    // A model that never says a word: ten minutes, and ten more.
    check(|_| Box::pin(futures::stream::pending()), 1200, 1210).await;
}

/// What was said before a break is kept, so that the time of it is not lost.
#[tokio::test(start_paused = true)]
async fn a_long_reply_that_breaks_off_is_asked_for_again() {
    let peer = Peer::new(|asked, _| if asked < 3 { falls_silent() } else { says("hello.") });
    let mut desk = Desk::new();
    desk.timeouts.between = Duration::from_mins(30);
    assert_eq!(desk.drive(peer).await.unwrap(), DONE);
}

#[tokio::test(start_paused = true)]
async fn a_stop_and_a_shutdown_cut_a_pause_short() {
    for stopped in [true, false] {
        let (desk, began) = (Desk::new(), Instant::now());
        let peer = Peer::new(|_, _| fails(busy(Some(300))));
        let token = if stopped { &desk.stop } else { &desk.abandon };
        let cut = async {
            tokio::time::sleep(Duration::from_secs(7)).await;
            token.cancel();
        };
        let (driven, ()) = tokio::join!(desk.drive(peer.clone()), cut);
        let cancelled = Driven::Ended(TurnState::Cancelled);
        assert_eq!(driven.unwrap(), if stopped { cancelled } else { Driven::Abandoned });
        assert_eq!((began.elapsed().as_secs(), peer.asked()), (7, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_behind_a_stop_ends_as_stopped() {
    let desk = Desk::new();
    desk.stop_elsewhere();
    let peer = Peer::new(|_, _| fails(ModelError::Unauthorized { status: 401 }));
    assert_eq!(desk.drive(peer.clone()).await.unwrap(), Driven::Ended(TurnState::Cancelled));
    let ending = desk.ending();
    assert_eq!((ending.state, ending.error, peer.asked()), (TurnState::Cancelled, None, 1));
}

#[tokio::test(start_paused = true)]
async fn what_will_not_pass_is_told_at_once() {
    let (desk, began) = (Desk::new(), Instant::now());
    let peer = Peer::new(|_, _| fails(ModelError::Unauthorized { status: 401 }));
    assert_eq!(desk.drive(peer.clone()).await.unwrap(), FAILED);
    assert_eq!((began.elapsed(), peer.asked()), (Duration::ZERO, 1));
}
