//! History in the order that every provider accepts: each call is followed by its result.
//!
//! The record is in the order of events: what a person wrote while tools ran stands between a call
//! and its result, and a turn that was cut off has calls without any. Here such messages move behind
//! the results, and missing results are said to be missing. Nothing else changes, so the text that
//! the model reads of a finished turn is always the same bytes.

use famulus_core::{
    ids::MessageId,
    message::{Message, MessageRole, Part, PartBody, ToolResult},
    tool::ToolOutput,
};
use std::{collections::HashSet, sync::Arc};

/// Puts a history in order.
pub fn normalise(history: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let mut ordered: Vec<Arc<Message>> = Vec::with_capacity(history.len());
    let mut rest = history.iter().peekable();
    while let Some(message) = rest.next() {
        match message.role {
            // A result without its call: the call stands before the window.
            MessageRole::Tool => {}
            MessageRole::User => ordered.push(Arc::clone(message)),
            MessageRole::Assistant => {
                let mut open: Vec<&_> = message.calls().collect();
                ordered.push(Arc::clone(message));
                if open.is_empty() {
                    continue;
                }
                let mut between = Vec::new();
                while let Some(next) = rest.peek() {
                    match next.role {
                        MessageRole::User if next.turn == message.turn => {
                            between.push(Arc::clone(next));
                        }
                        MessageRole::Tool => {
                            let answered = answered(next);
                            open.retain(|call| !answered.contains(call.id.as_str()));
                            ordered.push(Arc::clone(next));
                        }
                        MessageRole::User | MessageRole::Assistant => break,
                    }
                    rest.next();
                    if open.is_empty() {
                        break;
                    }
                }
                if !open.is_empty() {
                    ordered.push(Arc::new(missing(message, &open)));
                }
                ordered.append(&mut between);
            }
        }
    }
    ordered
}

fn answered(message: &Message) -> HashSet<&str> {
    message
        .parts
        .iter()
        .filter_map(|part| match &part.body {
            PartBody::ToolResult(result) => Some(result.call_id.as_str()),
            PartBody::Text { .. }
            | PartBody::Reasoning { .. }
            | PartBody::ToolCall(_)
            | PartBody::Image(_)
            | PartBody::Audio(_)
            | PartBody::File(_)
            | PartBody::Sentinel { .. } => None,
        })
        .collect()
}

/// Says of calls without results that they have none.
fn missing(message: &Message, open: &[&famulus_core::message::ToolCall]) -> Message {
    let parts = open
        .iter()
        .map(|call| {
            Part::result(ToolResult {
                call_id: call.id.clone(),
                name: call.name.clone(),
                output: ToolOutput::Unknown(
                    "no result was recorded: the turn ended while this call was under way".into(),
                ),
            })
        })
        .collect();
    Message {
        // The same id on every reading: the text stays the same bytes.
        id: MessageId(message.id.0),
        seq: message.seq,
        role: MessageRole::Tool,
        person: None,
        turn: message.turn,
        parts,
        blocks: None,
        created_at: message.created_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::{ids::TurnId, message::ToolCall};
    use jiff::Timestamp;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn message(seq: i64, role: MessageRole, parts: Vec<Part>) -> Arc<Message> {
        Arc::new(Message {
            id: MessageId(Uuid::from_u128(seq as u128)),
            seq,
            role,
            person: None,
            turn: Some(TurnId(Uuid::from_u128(1))),
            parts,
            blocks: None,
            created_at: Timestamp::UNIX_EPOCH,
        })
    }

    fn user(seq: i64) -> Arc<Message> {
        message(seq, MessageRole::User, vec![Part::system_text("hi")])
    }

    fn calling(seq: i64, ids: &[&str]) -> Arc<Message> {
        let parts = ids
            .iter()
            .map(|id| {
                Part::call(ToolCall { id: (*id).into(), name: "t".into(), arguments: "{}".into() })
            })
            .collect();
        message(seq, MessageRole::Assistant, parts)
    }

    fn results(seq: i64, ids: &[&str]) -> Arc<Message> {
        let parts = ids
            .iter()
            .map(|id| {
                Part::result(ToolResult {
                    call_id: (*id).into(),
                    name: "t".into(),
                    output: ToolOutput::Text("ok".into()),
                })
            })
            .collect();
        message(seq, MessageRole::Tool, parts)
    }

    fn order(history: &[Arc<Message>]) -> Vec<i64> {
        normalise(history).iter().map(|m| m.seq).collect()
    }

    #[test]
    fn steering_moves_behind_the_results() {
        let history = [user(1), calling(2, &["a", "b"]), user(3), results(4, &["a", "b"])];
        assert_eq!(order(&history), [1, 2, 4, 3]);
    }

    #[test]
    fn a_finished_history_stays_as_it_is() {
        let history = [user(1), calling(2, &["a"]), results(3, &["a"]), user(4)];
        assert_eq!(order(&history), [1, 2, 3, 4]);
    }

    #[test]
    fn a_call_that_was_cut_off_gets_a_result() {
        let cut = normalise(&[user(1), calling(2, &["a", "b"]), results(3, &["a"]), user(4)]);
        assert_eq!(cut.len(), 5);
        assert!(answered(&cut[3]).contains("b"));
        assert_eq!(cut[4].seq, 4);
    }

    #[test]
    fn what_comes_later_changes_nothing_of_a_turn_that_ended() {
        let turns = [
            vec![user(1), calling(2, &["a", "b"]), user(3), results(4, &["a", "b"])],
            vec![user(5), calling(6, &["a", "b"]), results(7, &["a"])],
            vec![user(8), calling(9, &["a"])],
            vec![user(10)],
        ];
        let mut history = Vec::new();
        let mut read = Vec::new();
        for turn in turns {
            history.extend(turn);
            let before = std::mem::replace(&mut read, normalise(&history));
            assert_eq!(&read[..before.len()], &before[..]);
        }
    }

    #[test]
    fn a_result_without_its_call_is_dropped() {
        assert_eq!(order(&[results(1, &["a"]), user(2)]), [2]);
    }

    proptest! {
        #[test]
        fn every_call_is_followed_by_its_result(kinds in prop::collection::vec(0..4u8, 0..30)) {
            let history: Vec<_> = kinds
                .iter()
                .enumerate()
                .map(|(n, kind)| match kind {
                    0 => user(n as i64),
                    1 => calling(n as i64, &["a"]),
                    2 => calling(n as i64, &["a", "b"]),
                    _ => results(n as i64, &["a"]),
                })
                .collect();
            let ordered = normalise(&history);
            for (place, message) in ordered.iter().enumerate() {
                let mut open: HashSet<&str> = message.calls().map(|c| c.id.as_str()).collect();
                for next in &ordered[place + 1..] {
                    if open.is_empty() || next.role != MessageRole::Tool {
                        break;
                    }
                    for id in answered(next) {
                        open.remove(id);
                    }
                }
                prop_assert!(open.is_empty(), "{:?}", ordered);
            }
        }
    }
}
