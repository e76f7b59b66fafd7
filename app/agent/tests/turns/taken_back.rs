//! What viewers are told to drop stands in the record before they are told.

use crate::{
    desk::Desk,
    peer::{Peer, says},
};
use famulus_agent::{DriveError, Driven};
use famulus_core::{
    StoreError,
    event::EventId,
    turn::{Partial, TurnState},
};

const LAST: EventId = EventId { fence: 0, number: 7 };

fn taken_over(text: &str) -> Desk {
    let partial = Partial { last: LAST, text: text.to_owned(), reasoning: String::new() };
    let mut desk = Desk::new();
    desk.partial = Some(partial);
    desk
}

#[tokio::test]
async fn whoever_takes_a_turn_over_and_loses_it_has_told_nobody_to_drop_anything() {
    for text in ["Dear Ada, the tr", ""] {
        let desk = taken_over(text);
        desk.lose_lease();
        let ended = desk.drive(Peer::new(|_, _| says("Here I am."))).await;
        assert!(matches!(ended, Err(DriveError::Record(StoreError::LeaseLost))), "{ended:?}");
        assert_eq!(desk.taken_back(), [], "{text}");

        let desk = taken_over(text);
        let ended = desk.drive(Peer::new(|_, _| says("Here I am."))).await;
        assert_eq!(ended.unwrap(), Driven::Ended(TurnState::Complete));
        assert_eq!(desk.taken_back(), [LAST], "{text}");
    }
}

#[tokio::test]
async fn a_reply_of_white_space_is_dropped_by_nobody_before_that_is_recorded() {
    let desk = Desk::new();
    desk.lose_lease();
    let ended = desk.drive(Peer::new(|_, _| says(" \n "))).await;
    assert!(matches!(ended, Err(DriveError::Record(StoreError::LeaseLost))), "{ended:?}");
    assert_eq!(desk.taken_back(), [EventId::START], "as it began");
}
