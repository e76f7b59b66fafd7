//! A model that says nothing more.

use crate::{
    desk::Desk,
    peer::{Peer, falls_silent},
};
use famulus_agent::Driven;
use famulus_core::{model::ModelEvent, turn::TurnState};
use futures::{StreamExt as _, stream};
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

/// Each limit has its time: the first until a sign of life, of whatever kind, the other from then on.
#[tokio::test(start_paused = true)]
async fn a_model_that_is_loaded_gets_another_patience_than_one_that_has_begun() {
    let says = |events: Vec<ModelEvent>| {
        Peer::new(move |_, _| {
            let events: Vec<_> = events.iter().cloned().map(Ok).collect();
            stream::iter(events).chain(stream::pending()).boxed()
        })
    };
    let cases = [
        ("nothing", vec![], 600),
        ("a ping", vec![ModelEvent::Ping], 60),
        ("a thought", vec![ModelEvent::Reasoning("Hm.".into())], 60),
        ("a word", vec![ModelEvent::Text("Well, ".into())], 60),
        ("two words", vec![ModelEvent::Text("Well, ".into()), ModelEvent::Text("so ".into())], 60),
        ("a call", vec![ModelEvent::Calling { name: "look".into() }], 60),
    ];
    for (what, events, seconds) in cases {
        let mut desk = Desk::new();
        desk.timeouts.retries = 0;
        desk.timeouts.first = Duration::from_mins(10);
        desk.timeouts.between = Duration::from_mins(1);
        let began = Instant::now();
        let driven = timeout(Duration::from_hours(1), desk.drive(says(events)));
        let driven = driven.await.expect("silence ends the turn").unwrap();
        assert_eq!(driven, Driven::Ended(TurnState::Failed), "{what}");
        assert_eq!(began.elapsed().as_secs(), seconds, "after {what}");
        let silent = format!("the model was silent for {seconds} s");
        assert_eq!(desk.ending().error.unwrap(), silent, "after {what}");
    }
}
