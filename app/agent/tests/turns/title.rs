//! The name of a conversation, asked for when its turn has ended.

use crate::{
    desk::Desk,
    peer::{Peer, says},
};
use famulus_agent::Driven;
use famulus_core::turn::TurnState;
use futures::{StreamExt as _, stream};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn naming_a_conversation_gives_way_to_a_shutdown() {
    let mut desk = Desk::new();
    desk.untitled = true;
    let peer =
        Peer::new(|asked, _| if asked == 0 { says("Hello.") } else { stream::pending().boxed() });
    let shutdown = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        desk.abandon.cancel();
    };
    let began = Instant::now();
    let (driven, ()) = tokio::join!(desk.drive(peer.clone()), shutdown);
    assert_eq!(driven.unwrap(), Driven::Ended(TurnState::Complete), "its turn has ended");
    assert_eq!((began.elapsed().as_secs(), peer.asked(), desk.title()), (3, 2, None));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_gets_its_name() {
    let mut desk = Desk::new();
    desk.untitled = true;
    let peer = Peer::new(|asked, _| says(if asked == 0 { "Hello." } else { "A short hello." }));
    desk.drive(peer).await.unwrap();
    assert_eq!(desk.title().as_deref(), Some("A short hello"));
}
