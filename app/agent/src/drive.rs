//! Takes a turn up from its record and drives it as far as this worker can.

use crate::{
    ask::Shown,
    calls::Checked,
    driver::{DriveError, Driven, Driver},
    patience::Patience,
    run::Run,
    step::{Input, State},
    stream::Stream,
    title,
};
use famulus_core::{
    ids::TurnId,
    message::MessageRole,
    tool::ToolSpec,
    turn::{Fence, LoadedTurn, RecordedCall, TurnState},
};
use famulus_lifecycle::boxed;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

impl Driver {
    /// Drives a turn until it ends, waits, or must be given up.
    ///
    /// # Errors
    /// [`famulus_core::StoreError::LeaseLost`] when somebody else has taken over; any other error leaves the turn
    /// as its record says, for the next try.
    #[boxed]
    pub async fn drive(
        &self,
        fence: &Fence,
        turn: TurnId,
        stop: &CancellationToken,
        abandon: &CancellationToken,
    ) -> Result<Driven, DriveError> {
        let span = tracing::info_span!("turn", turn.id = %turn, conversation.id = %fence.lane,
            lease.token = fence.token);
        self.drive_in_span(fence, turn, stop, abandon).instrument(span).await
    }

    async fn drive_in_span(
        &self,
        fence: &Fence,
        turn: TurnId,
        stop: &CancellationToken,
        abandon: &CancellationToken,
    ) -> Result<Driven, DriveError> {
        let loaded = self.log.take_up(fence, turn).await?;
        if loaded.state.is_final() {
            // Its end was recorded, but not its lease: nothing is left to do.
            return Ok(Driven::Ended(loaded.state));
        }
        let tools: Arc<[ToolSpec]> = if loaded.agent.is_text_only() {
            Arc::from([])
        } else {
            self.tools.catalogue(&loaded.agent.tools).into()
        };
        let latest = loaded.calls.last().map(|call| call.key.step);
        let answered =
            loaded.history.last().is_some_and(|message| {
                message.role == MessageRole::Tool && message.turn == Some(turn)
            }) || has_results(&loaded, latest);
        let open: Vec<RecordedCall> = if answered {
            Vec::new()
        } else {
            loaded.calls.iter().filter(|call| Some(call.key.step) == latest).cloned().collect()
        };
        let state = State::from_record(&loaded.agent, loaded.steps, &loaded.calls);
        let stream = Stream::new(
            Arc::clone(&self.events),
            Arc::clone(&self.viewers),
            Arc::clone(&self.clock),
            *fence,
            &loaded,
        );
        let mut run = Run {
            driver: self,
            fence,
            usage: loaded.usage,
            patience: Patience::new(turn, self.limits.timeouts.outage),
            steps: loaded.steps,
            turn: loaded,
            stream,
            stop,
            abandon,
            tools,
            open,
            reply: None,
            checked: Checked::new(),
            cut: Shown::default(),
        };
        run.resume().await?;
        let begin = Input::Begin {
            unsettled: !run.open.is_empty(),
            cancelled: run.turn.cancel_requested || stop.is_cancelled(),
        };
        let driven = run.until_done(state, begin).await?;
        if driven == Driven::Ended(TurnState::Complete) && run.turn.untitled {
            let title = title::ask(self.model.as_ref(), Arc::clone(&self.blobs), &run.turn);
            // Whoever has the conversation next asks for one that is missing.
            if let Some(Some(title)) = abandon.run_until_cancelled(title).await
                && let Err(error) = self.log.set_title(turn, &title).await
            {
                tracing::warn!(error = %error, "a title was not stored; the next turn asks again");
            }
        }
        Ok(driven)
    }
}

/// Whether the results of the latest step are in the history already.
fn has_results(turn: &LoadedTurn, latest: Option<u32>) -> bool {
    let Some(latest) = latest else { return true };
    let ids: Vec<&str> = turn
        .calls
        .iter()
        .filter(|call| call.key.step == latest)
        .map(|call| call.call.id.as_str())
        .collect();
    let asked = turn.history.iter().rposition(|message| {
        message.turn == Some(turn.id) && message.calls().any(|call| ids.contains(&call.id.as_str()))
    });
    asked.is_none_or(|place| {
        turn.history[place..]
            .iter()
            .any(|message| message.role == MessageRole::Tool && message.turn == Some(turn.id))
    })
}
