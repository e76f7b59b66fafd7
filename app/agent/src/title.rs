//! Four words for a conversation, written by the model after its first reply.

use famulus_core::{
    blob::Blobs,
    ids::MessageId,
    message::{Message, MessageRole, Part, visible_text},
    model::{Model, ModelEvent, ModelRequest},
    turn::LoadedTurn,
};
use futures::StreamExt;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

const PROMPT: &str = include_str!("prompts/title.md");
const PATIENCE: Duration = Duration::from_mins(1);
const WORDS: usize = 4;
const LONGEST: usize = 80;

/// Asks for a title; `None` when the model gave nothing usable. A title is never worth an error.
pub(crate) async fn ask(
    model: &dyn Model,
    blobs: Arc<dyn Blobs>,
    turn: &LoadedTurn,
) -> Option<String> {
    let first = turn.history.iter().find(|message| message.role == MessageRole::User)?;
    let message = Message {
        id: MessageId::new(),
        parts: vec![Part::system_text(first.text().chars().take(2000).collect::<String>())],
        blocks: None,
        ..first.as_ref().clone()
    };
    let request = ModelRequest {
        model: turn.agent.model.clone(),
        system: PROMPT.trim().to_owned(),
        context: String::new(),
        messages: vec![Arc::new(message)],
        tools: Arc::from([]),
        person: turn.host,
        blobs,
    };
    let reply = timeout(PATIENCE, async {
        let mut events = model.ask(request);
        while let Some(event) = events.next().await {
            if let Ok(ModelEvent::Done(reply)) = event {
                return Some(reply);
            }
        }
        None
    });
    clean(&visible_text(&reply.await.ok()??.parts))
}

/// At most four words on one line, without quotation marks or a full stop.
fn clean(text: &str) -> Option<String> {
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let words: Vec<&str> = line.split_whitespace().take(WORDS).collect();
    let title: String = words
        .join(" ")
        .trim_matches(|c: char| c.is_ascii_punctuation() || "“”„«»".contains(c))
        .chars()
        .filter(|c| !c.is_control())
        .take(LONGEST)
        .collect();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_four_words_on_one_line() {
        let check = |text, want: Option<&str>| assert_eq!(clean(text).as_deref(), want, "{text}");
        check("\"The name of the cat.\"\nmore", Some("The name of the"));
        check("\n  **Cat care** ", Some("Cat care"));
        check("…", Some("…"));
        check("   ", None);
        check("\"\"", None);
    }
}
