//! Memories: keeping one, finding it by the words that it shares with a question, forgetting it.

use super::memo::{Halt, Memo};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const KNOWLEDGE: &str = "manage_knowledge";

pub(crate) fn remember(fact: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    memo.call(KNOWLEDGE, json!({"action": "upsert", "store": "memory", "content": fact}))?;
    Ok(format!("I will remember: {fact}"))
}

pub(crate) fn recall(topic: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    let memories = list(memo)?;
    Ok(match &*matching(topic, &memories) {
        [] => "I remember nothing about that. Tell me with `remember that ...`.".to_owned(),
        [one] => format!("You told me: {}", body(one)),
        some => format!("You told me:\n{}", bullets(some)),
    })
}

pub(crate) fn forget(topic: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    let memories = list(memo)?;
    match &*matching(topic, &memories) {
        [] => Ok("I remember nothing like that, so there is nothing to forget.".to_owned()),
        [one] => {
            let delete = json!({"action": "delete", "store": "memory", "id": one["id"]});
            memo.call(KNOWLEDGE, delete)?;
            Ok(format!("I have forgotten: {}", body(one)))
        }
        some => Ok(format!(
            "More than one memory is like that. Which of these shall I forget?\n{}",
            bullets(some)
        )),
    }
}

/// All memories, page by page.
fn list(memo: &Memo<'_>) -> Result<Vec<Value>, Halt> {
    let (mut all, mut call) = (Vec::new(), json!({"action": "list", "store": "memory"}));
    loop {
        let page = memo.call(KNOWLEDGE, call.clone())?;
        let entries = page["entries"].as_array().cloned().unwrap_or_default();
        // A page without entries would come again for ever.
        let more = page["next_offset"].is_u64() && !entries.is_empty();
        all.extend(entries);
        if !more {
            return Ok(all);
        }
        call["offset"] = page["next_offset"].clone();
    }
}

fn bullets(memories: &[&Value]) -> String {
    memories.iter().map(|memory| format!("- {}", body(memory))).collect::<Vec<_>>().join("\n")
}

fn body(memory: &Value) -> &str {
    memory["content"].as_str().unwrap_or_default()
}

/// The memories that share the most words with the topic, at least one.
fn matching<'m>(topic: &str, memories: &'m [Value]) -> Vec<&'m Value> {
    let topic = words(topic);
    let shared = |memory: &Value| words(body(memory)).intersection(&topic).count();
    let most = memories.iter().map(shared).max().unwrap_or(0);
    memories.iter().filter(|memory| most > 0 && shared(memory) == most).collect()
}

/// The words of a text that say what it is about.
fn words(text: &str) -> BTreeSet<String> {
    const EMPTY: &[&str] = &[
        "a", "about", "an", "and", "are", "called", "i", "in", "is", "my", "name", "named", "of",
        "that", "the", "to", "was",
    ];
    text.split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| !word.is_empty() && !EMPTY.contains(&word.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_match_wins() {
        let memories = ["my cat is called Miso", "I like green tea", "my car is green"];
        let memories = memories.map(|body| json!({ "content": body }));
        let check = |topic: &str, expected: &[usize]| {
            let expected: Vec<&Value> = expected.iter().map(|at| &memories[*at]).collect();
            assert_eq!(matching(topic, &memories), expected, "{topic}");
        };
        check("cat called", &[0]);
        check("Green", &[1, 2]);
        check("green car", &[2]);
        check("name", &[]);
        check("", &[]);
    }
}
