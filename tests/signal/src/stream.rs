//! The stream of events.

use crate::server::Shared;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::sleep;

/// Events that wait for a reader; a slower one loses the rest.
const HELD: usize = 100_000;

/// Opens a stream: what waits comes first.
pub(crate) fn open(shared: &Arc<Shared>, account: Option<&str>) -> Response {
    let mut world = shared.world();
    let is_known = account.is_none_or(|wanted| {
        world.accounts.iter().any(|(number, id)| number == wanted || id == wanted)
    });
    if !is_known {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let (sender, receiver) = channel(HELD);
    // Of no account it is told nothing, for ever.
    if !world.accounts.is_empty() && !world.is_stalled {
        world.begin(sender.clone());
    }
    let drops = world.drops;
    drop(world);
    let body = Body::from_stream(stream::unfold(
        (Arc::clone(shared), receiver, sender, drops),
        async |(shared, mut receiver, sender, drops)| {
            let piece = next(&shared, &mut receiver, drops).await?;
            Some((Ok::<_, std::io::Error>(piece), (shared, receiver, sender, drops)))
        },
    ));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// An event, or a sign of life; `None` when the streams were dropped.
async fn next(shared: &Shared, receiver: &mut Receiver<Bytes>, drops: u64) -> Option<Bytes> {
    loop {
        // Whoever writes a piece at that moment does not wait to be told.
        let dropped = shared.dropped.notified();
        let pause = {
            let world = shared.world();
            if world.drops != drops {
                return None;
            }
            world.keep_alive
        };
        tokio::select! {
            biased;
            () = dropped => return None,
            piece = receiver.recv() => return piece,
            () = sleep(pause) => {
                if !shared.world().is_stalled {
                    return Some(Bytes::from_static(b":\n"));
                }
            }
        }
    }
}
