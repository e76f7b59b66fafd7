//! What the model is sent: the stable instructions, what the assistant knows, and the history.

use crate::{normalise::normalise, step::Mode, step::why};
use famulus_core::{
    agent::Agent,
    ids::MessageId,
    knowledge::{Knowledge, KnowledgeKind},
    message::{FilePart, Heard, Message, MessageRole, Part, PartBody},
    person::Person,
};
use jiff::Timestamp;
use std::{fmt::Write as _, sync::Arc};

const SYSTEM: &str = include_str!("prompts/system.md");
const WRAP_UP: &str = include_str!("prompts/wrap_up.md");

/// Characters that stand for one token, on the careful side.
const CHARS_PER_TOKEN: usize = 3;

/// Bounds of a prompt.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Tokens for the history.
    pub history_tokens: usize,
    /// Tokens for memories and titles.
    pub knowledge_tokens: usize,
}

/// The part that stays the same over a conversation, so that providers can cache it.
pub fn system(agent: &Agent, person: &Person) -> String {
    let mut text = SYSTEM.to_owned();
    // Writing to a String cannot fail.
    let _infallible = write!(
        text,
        "\nYou talk with {} ({}). Their time zone is {}, their language {}.\n",
        person.name,
        person.role.as_str(),
        person.time_zone,
        person.language
    );
    if !agent.prompt.trim().is_empty() {
        text.push('\n');
        text.push_str(agent.prompt.trim());
        text.push('\n');
    }
    text
}

/// Memories whole and scratchpad titles with ids, newest kept when the budget is too small; the
/// model is told how many it does not see.
pub fn knowledge(entries: &[Knowledge], budget_tokens: usize) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let mut left = budget_tokens.saturating_mul(CHARS_PER_TOKEN);
    let mut hidden = 0;
    let mut lines: Vec<(KnowledgeKind, String)> = Vec::new();
    for entry in entries.iter().rev() {
        let line = match entry.kind {
            KnowledgeKind::Memory => {
                format!("- [{}] ({}) {}", entry.id, day(entry.updated_at), entry.body)
            }
            KnowledgeKind::Scratchpad => format!("- [{}] {}", entry.id, entry.title),
        };
        if line.len() > left {
            hidden += 1;
            continue;
        }
        left -= line.len();
        lines.push((entry.kind, line));
    }
    lines.reverse();
    let mut text = String::new();
    let sections =
        [(KnowledgeKind::Memory, "Memories:"), (KnowledgeKind::Scratchpad, "Scratchpad pages:")];
    for (kind, heading) in sections {
        let mut of_kind = lines.iter().filter(|(k, _)| *k == kind).peekable();
        if of_kind.peek().is_none() {
            continue;
        }
        text.push_str(heading);
        for (_, line) in of_kind {
            text.push('\n');
            text.push_str(line);
        }
        text.push_str("\n\n");
    }
    if hidden > 0 {
        let _infallible =
            write!(text, "{hidden} more entries are not shown; list them with the tool.");
    }
    text.trim_end().to_owned()
}

fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// The history in order and within the budget, and the word that ends a turn when it must end.
pub fn messages(history: &[Arc<Message>], mode: Mode, budget: Budget) -> Vec<Arc<Message>> {
    let mut messages = normalise(within(history, budget.history_tokens * CHARS_PER_TOKEN));
    if let Mode::WrapUp(reason) = mode {
        let seq = messages.last().map_or(0, |m| m.seq);
        let at = messages.last().map_or(Timestamp::UNIX_EPOCH, |m| m.created_at);
        messages.push(Arc::new(Message {
            id: MessageId::new(),
            seq,
            role: MessageRole::User,
            person: None,
            turn: None,
            parts: vec![Part::system_text(WRAP_UP.trim().replace("{reason}", why(reason)))],
            blocks: None,
            created_at: at,
        }));
    }
    messages
}

/// The newest messages that fit, beginning at a turn: half a turn would be calls without a reason.
/// The latest turn always stays whole.
fn within(history: &[Arc<Message>], mut chars: usize) -> &[Arc<Message>] {
    let mut start = history.len();
    let latest = history.last().and_then(|m| m.turn);
    for (place, message) in history.iter().enumerate().rev() {
        let size = size(message);
        if message.turn == latest {
            chars = chars.saturating_sub(size);
        } else {
            if size > chars {
                break;
            }
            chars -= size;
        }
        let begins = place == 0 || history[place - 1].turn != message.turn;
        if begins {
            start = place;
        }
    }
    &history[start..]
}

fn size(message: &Message) -> usize {
    message
        .parts
        .iter()
        .map(|part| match &part.body {
            PartBody::Text { text } | PartBody::Reasoning { text } => text.len(),
            PartBody::ToolCall(call) => call.name.len() + call.arguments.len(),
            PartBody::ToolResult(result) => result.output.text().len(),
            PartBody::Audio(FilePart { heard: Some(Heard::Words(words)), .. }) => words.len(),
            PartBody::Image(_) | PartBody::Audio(_) | PartBody::File(_) => 1000 * CHARS_PER_TOKEN,
            PartBody::Sentinel { .. } => 40,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::{
        agent::{Budgets, Grants},
        ids::{AgentId, KnowledgeId, PersonId, TurnId},
        person::Role,
    };
    use uuid::Uuid;

    fn entry(n: u128, kind: KnowledgeKind, title: &str, body: &str) -> Knowledge {
        Knowledge {
            id: KnowledgeId(Uuid::from_u128(n)),
            kind,
            title: title.into(),
            body: body.into(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_instructions_name_the_person_and_the_time_zone() {
        let agent = Agent {
            id: AgentId(Uuid::nil()),
            name: "main".into(),
            prompt: " Be brief. ".into(),
            model: None,
            step_cap: None,
            budgets: Budgets::default(),
            tools: Grants::all(),
        };
        let ada = Person {
            id: PersonId(Uuid::nil()),
            name: "Ada".into(),
            role: Role::Member,
            time_zone: "Asia/Kathmandu".into(),
            language: "en".into(),
        };
        let text = system(&agent, &ada);
        let person =
            "\nYou talk with Ada (member). Their time zone is Asia/Kathmandu, their language en.\n";
        assert!(text.starts_with(SYSTEM) && text.contains(person), "{text}");
        assert!(text.ends_with("\n\nBe brief.\n"), "{text}");
    }

    #[test]
    fn memories_are_whole_and_pages_are_titles() {
        let text = knowledge(
            &[
                entry(1, KnowledgeKind::Memory, "", "The cat is called Miso."),
                entry(2, KnowledgeKind::Scratchpad, "Garden", "(long)"),
            ],
            1000,
        );
        assert_eq!(
            text,
            "Memories:\n- [00000000-0000-0000-0000-000000000001] (1970-01-01) The cat is called Miso.\n\n\
             Scratchpad pages:\n- [00000000-0000-0000-0000-000000000002] Garden"
        );
    }

    #[test]
    fn a_small_budget_keeps_the_newest_and_says_so() {
        let old = entry(1, KnowledgeKind::Memory, "", &"x".repeat(500));
        let new = entry(2, KnowledgeKind::Memory, "", "new");
        let text = knowledge(&[old, new], 50);
        assert!(text.contains("new") && text.contains("1 more entries"), "{text}");
    }

    fn message(turn: u128, seq: i64, text: &str) -> Arc<Message> {
        Arc::new(Message {
            id: MessageId(Uuid::from_u128(seq as u128)),
            seq,
            role: MessageRole::User,
            person: None,
            turn: Some(TurnId(Uuid::from_u128(turn))),
            parts: vec![Part::system_text(text)],
            blocks: None,
            created_at: Timestamp::UNIX_EPOCH,
        })
    }

    #[test]
    fn the_window_begins_at_a_turn_and_keeps_the_latest_whole() {
        let history = [
            message(1, 1, &"a".repeat(50)),
            message(2, 2, &"b".repeat(50)),
            message(2, 3, &"c".repeat(50)),
            message(3, 4, &"d".repeat(500)),
        ];
        let seqs = |chars| within(&history, chars).iter().map(|m| m.seq).collect::<Vec<_>>();
        assert_eq!(seqs(10_000), [1, 2, 3, 4]);
        assert_eq!(seqs(620), [2, 3, 4]);
        assert_eq!(seqs(560), [4]);
        assert_eq!(seqs(0), [4]);
    }
}
