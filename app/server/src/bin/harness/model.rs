//! The model of the crash tests: says what its script says, piece by piece, with a pause before
//! each.

use crate::script;
use famulus_core::{
    message::Part,
    model::{Model, ModelError, ModelEvent, ModelReply, ModelRequest, ModelStream, Usage},
};
use futures::{StreamExt, stream};
use std::time::Duration;
use tokio::time::sleep;

/// A provider that refuses thinks for so many pieces first: time enough to write more.
const REFUSES_AFTER: u32 = 60;

pub(crate) struct Scripted {
    /// Before each piece.
    pub(crate) pace: Duration,
}

impl Model for Scripted {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn ask(&self, request: ModelRequest) -> ModelStream {
        // Without tools it is asked for a title.
        let reply = if request.tools.is_empty() {
            script::Reply { pieces: vec!["A crash test".to_owned()], ..script::Reply::default() }
        } else {
            script::reply(&request.messages)
        };
        if reply.refused {
            let wait = self.pace * REFUSES_AFTER;
            return stream::once(async move {
                sleep(wait).await;
                Err(ModelError::Unauthorized { status: 401 })
            })
            .boxed();
        }
        let parts: Vec<Part> = reply.parts();
        let said = reply.cut.unwrap_or(reply.pieces.len());
        let mut events: Vec<Result<ModelEvent, ModelError>> =
            reply.pieces.into_iter().take(said).map(|piece| Ok(ModelEvent::Text(piece))).collect();
        events.push(match reply.cut {
            Some(_) => Err(ModelError::Cut),
            None => Ok(ModelEvent::Done(Box::new(ModelReply {
                model: "scripted-1".to_owned(),
                parts,
                blocks: None,
                usage: Usage { input_tokens: Some(1), output_tokens: Some(1) },
            }))),
        });
        let pace = self.pace;
        stream::iter(events)
            .then(move |event| async move {
                sleep(pace).await;
                event
            })
            .boxed()
    }
}
