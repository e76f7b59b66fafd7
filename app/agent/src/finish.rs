//! The end of a turn: its last message, its reply, and what viewers are told.

use crate::{
    driver::{DriveError, Driven, Driver},
    run::{Replied, Run, StepResult, calls_of},
    step::{Finish, Input},
};
use famulus_core::{
    StoreError,
    event::Event,
    ids::{MessageId, TurnId},
    message::{Message, MessageRole, Part, PartBody, Sentinel, visible_text},
    outbound::{Channel, ReplyRule},
    turn::{Burial, Ended, Ending, Fence, NewMessage, STOPPED, TurnState},
};
use famulus_lifecycle::boxed;
use std::sync::Arc;

impl Run<'_> {
    pub(crate) async fn finish(&mut self, finish: Finish) -> Result<StepResult, StoreError> {
        let reply = self.reply.take();
        let mut steps = self.steps;
        let (mut parts, blocks, model) = match reply {
            Some(Replied { reply, .. }) => {
                steps += 1;
                // Calls of a reply that ends the turn are not run, and so not kept: neither as parts
                // nor in the provider's own blocks, which would replay them.
                let blocks = reply.blocks.filter(|_| calls_of(&reply.parts).next().is_none());
                (without_calls(reply.parts), blocks, Some(reply.model))
            }
            None => (std::mem::take(&mut self.cut).parts(Sentinel::Interrupted), None, None),
        };
        if model.is_none() {
            parts.pop();
        }
        if let Some(reason) = finish.sentinel {
            parts.push(Part::sentinel(reason));
        }
        // A reply that was cut short and asked for again is one reply to the person who reads it.
        let text = interrupted_before(&self.turn.history, self.turn.id, finish.state)
            + &visible_text(&parts);
        let said = !text.trim().is_empty();
        let reply = match finish.state {
            TurnState::Complete if said => Some(text.clone()),
            TurnState::Failed => finish.error.as_ref().map(|error| went_wrong(error)),
            TurnState::Cancelled => Some(STOPPED.to_owned()),
            TurnState::Complete | TurnState::Queued | TurnState::Running | TurnState::Waiting => {
                None
            }
        };
        let message =
            (!parts.is_empty()).then(|| NewMessage { id: MessageId::new(), parts, blocks });
        let complete = self.stream.next(Event::Complete {
            turn: self.turn.id,
            state: finish.state,
            message: message.as_ref().map(|m| m.id),
            text,
        });
        let ending = Ending {
            turn: self.turn.id,
            state: finish.state,
            message,
            model,
            usage: self.usage,
            steps,
            error: finish.error,
            reply,
            delivering: self.driver.delivering(),
            shown: self.stream.last(),
            events: self.stream.open(),
            complete: Arc::clone(&complete),
        };
        match self.driver.log.finish(self.fence, ending).await? {
            Ended::Done => {
                self.stream.show_recorded(&complete);
                metrics::counter!("famulus_turns_total", "state" => finish.state.as_str())
                    .increment(1);
                Ok(StepResult::Done(Driven::Ended(finish.state)))
            }
            Ended::Steered(news) => {
                self.steps = steps;
                self.stream.recorded();
                self.take_in(news);
                Ok(StepResult::Input(Input::Steered))
            }
            Ended::Stopped => Ok(StepResult::Input(Input::Cancelled)),
        }
    }
}

impl Driver {
    /// Gives a turn up for which worker after worker died: it fails, and waits among the dead
    /// letters until somebody has it tried again.
    ///
    /// # Errors
    /// As [`Driver::drive`].
    #[boxed]
    pub async fn bury(
        &self,
        fence: &Fence,
        turn: TurnId,
        reason: String,
    ) -> Result<(), DriveError> {
        let burial = Burial {
            turn,
            reply: went_wrong(&reason),
            reason,
            delivering: self.delivering(),
            at: self.clock.now(),
        };
        let events = self.log.bury(fence, burial).await?;
        for event in &events {
            self.viewers.publish(event);
            self.viewers.stored(event.conversation, event.id);
        }
        metrics::counter!("famulus_turns_total", "state" => TurnState::Failed.as_str())
            .increment(1);
        Ok(())
    }

    /// The channels that want replies delivered.
    fn delivering(&self) -> Vec<String> {
        let delivers = |channel: &dyn Channel| match channel.capabilities().reply {
            ReplyRule::Text | ReplyRule::SendTool => true,
            ReplyRule::Kept => false,
        };
        let delivering = self.channels.iter().filter(|(_, channel)| delivers(channel.as_ref()));
        delivering.map(|(name, _)| name.clone()).collect()
    }
}

fn went_wrong(reason: &str) -> String {
    format!("Something went wrong: {reason}.")
}

/// The text of the interrupted messages that stand right before the end of a turn. Before a reply,
/// what was written after them stands between: the reply answers it. A turn that fails leaves that to
/// another turn.
fn interrupted_before(history: &[Arc<Message>], turn: TurnId, state: TurnState) -> String {
    let is_cut = |message: &&Arc<Message>| {
        message.parts.last().is_some_and(|part| {
            matches!(part.body, PartBody::Sentinel { reason: Sentinel::Interrupted })
        })
    };
    let is_left =
        |message: &&Arc<Message>| state == TurnState::Failed && message.role == MessageRole::User;
    let of_turn = history.iter().rev().take_while(|message| message.turn == Some(turn));
    let tail: Vec<&Arc<Message>> =
        of_turn.filter(|message| !is_left(message)).take_while(is_cut).collect();
    tail.into_iter().rev().map(|message| message.text()).collect()
}

fn without_calls(parts: Vec<Part>) -> Vec<Part> {
    parts.into_iter().filter(|part| !matches!(part.body, PartBody::ToolCall(_))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(turn: TurnId, role: MessageRole, parts: Vec<Part>) -> Arc<Message> {
        Arc::new(Message {
            id: MessageId::new(),
            seq: 1,
            role,
            person: None,
            turn: Some(turn),
            parts,
            blocks: None,
            created_at: jiff::Timestamp::UNIX_EPOCH,
        })
    }

    #[test]
    fn what_was_cut_off_belongs_to_the_end_unless_something_was_answered_between() {
        let (turn, other) = (TurnId::new(), TurnId::new());
        let asks = || message(turn, MessageRole::User, Vec::new());
        let cut = |turn, text: &str| {
            let parts = vec![Part::assistant_text(text), Part::sentinel(Sentinel::Interrupted)];
            message(turn, MessageRole::Assistant, parts)
        };
        let result = || message(turn, MessageRole::Tool, Vec::new());
        let table = [
            (vec![asks()], "", ""),
            (vec![cut(other, "x "), asks(), cut(turn, "a "), cut(turn, "b ")], "a b ", "a b "),
            (vec![cut(other, "x "), asks()], "", ""),
            (vec![asks(), cut(turn, "a "), asks()], "", "a "),
            (vec![asks(), cut(turn, "a "), asks(), cut(turn, "b "), asks()], "", "a b "),
            (vec![asks(), cut(turn, "a "), asks(), cut(turn, "b ")], "b ", "a b "),
            (vec![asks(), cut(turn, "a "), result(), asks()], "", ""),
        ];
        for (history, replied, failed) in table {
            let text = |state| interrupted_before(&history, turn, state);
            assert_eq!(text(TurnState::Complete), replied, "{history:?}");
            assert_eq!(text(TurnState::Cancelled), replied, "{history:?}");
            assert_eq!(text(TurnState::Failed), failed, "{history:?}");
        }
    }
}
