//! The demo model: fixed rules instead of a language model, for a first try without a key and for
//! a smoke turn after an upgrade.
//!
//! It really calls the tools that it is offered and says only what their results hold: change a
//! stored memory and the answer changes. The same conversation always gets the same answer.
//!
//! ```text
//! messages ─► ask (what was said, which calls are done) ─► wish (what is meant)
//!          ─► act (replayed over the done calls) ─► more calls, or the text
//! ```
//!
//! Refuses to know: how tools work, where anything is kept, and what time it is; all of that it
//! reads from the conversation.

mod ask;
mod files;
mod memo;
mod memories;
mod plugins;
mod reminders;
#[cfg(test)]
mod tests;
mod time;
mod wish;

use crate::config::DemoConfig;
use ask::Ask;
use famulus_core::message::{Message, Part, ToolCall};
use famulus_core::model::{
    Model, ModelError, ModelEvent, ModelReply, ModelRequest, ModelStream, Usage,
};
use famulus_core::tool::ToolSpec;
use futures::{StreamExt as _, stream};
use memo::{Halt, Memo, Wanted};
use std::sync::Arc;
use std::time::Duration;
use wish::Wish;

/// The responder.
#[derive(Clone, Debug, Default)]
pub struct Demo {
    delay: Duration,
}

/// What the demo model answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Text(String),
    /// To be run, in any order; the rest of the answer depends on their results.
    Calls(Vec<ToolCall>),
}

/// What the demo model reads: a request without what it needs no eyes for.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub system: &'a str,
    pub messages: &'a [Arc<Message>],
    pub tools: &'a [ToolSpec],
}

const HELP: &str = "Hello! I am the demo model of this assistant: a few fixed rules, no language model. I do use the real tools, and what I tell you comes from their results. Try:

- `remember that my cat is called Miso`, then `what is my cat called?`
- `forget my cat` (I ask you first)
- `remind me in 10 minutes to drink tea`, or `remind me every day at 9 to water the plants` (\"famulus schedules\" lists them)
- `what time is it?`
- send a file, then `send me the file` (in a chat, as on Telegram)
- `say good morning`: a recording, where something is configured to speak
- `run look of weather with city=Berlin`: the tool of a plugin, where there are plugins
- `install https://example.org/weather.git`: I fetch a plugin, and ask you before it runs; where its tools need it, `install https://example.org/weather.git with the internet`
- `update weather`, `roll back weather`, `remove the plugin weather`, `set units of weather to metric`

You may ask for two things at once. For a real conversation, set `model.base_url`, `model.name` and `model.api_key` in the configuration and start again.";

const WHAT_I_AM: &str = "I am only the demo model: a few fixed rules, no language model, so I cannot answer that. For a real conversation, set `model.base_url`, `model.name` and `model.api_key` in the configuration and start again. Say `help` to see what I can do.";

/// Answers; pure.
pub fn answer(question: Question<'_>) -> Answer {
    if question.system.starts_with("Make a title") {
        return Answer::Text(title(question.messages));
    }
    let ask = Ask::read(question.messages);
    let memo = Memo { done: &ask.done, tools: question.tools };
    let mut said = Vec::new();
    let mut wanted: Vec<Wanted> = Vec::new();
    for wish in wish::read(&ask) {
        match act(&wish, &ask, &memo) {
            Ok(text) | Err(Halt::Say(text)) => said.push(text),
            Err(Halt::Wants(call)) if wanted.iter().any(|other| call.waits_for(other)) => {}
            Err(Halt::Wants(call)) => wanted.push(call),
        }
    }
    if wanted.is_empty() {
        return Answer::Text(ask.rest_of(&said.join("\n\n")));
    }
    let message = question.messages.len();
    let calls = wanted.into_iter().enumerate().map(|(position, call)| ToolCall {
        id: format!("demo_{message}_{position}"),
        name: call.tool.to_owned(),
        arguments: call.arguments.to_string(),
    });
    Answer::Calls(calls.collect())
}

/// What is done for a wish, and what is said of it.
fn act(wish: &Wish, ask: &Ask, memo: &Memo<'_>) -> Result<String, Halt> {
    match wish {
        Wish::Help => Ok(HELP.to_owned()),
        Wish::Remember(fact) => memories::remember(fact, memo),
        Wish::Recall(topic) => memories::recall(topic, memo),
        Wish::Forget(topic) => memories::forget(topic, memo),
        Wish::Time => time::tell(memo),
        Wish::Remind { note, when } => reminders::create(note, *when, memo),
        Wish::RemindWhen => Ok("When? Say for example `remind me in 10 minutes to drink tea`, or `remind me every day at 9 to water the plants`.".to_owned()),
        Wish::RunTool { plugin, tool, parameters } => plugins::run(plugin, tool, parameters, memo),
        Wish::Plugin(life) => plugins::manage(life, memo),
        Wish::SendFile => files::send_back(ask.file.as_ref(), memo),
        Wish::Say(words) => files::say(words, memo),
        Wish::Got(name) => Ok(format!("I have {name}. Say `send me the file`, and you get it back.")),
        Wish::Unheard(why) => Ok(format!("I could not hear your recording: {why}.")),
        Wish::Reminder(note) => Ok(format!("Reminder: {note}")),
        Wish::LateResult(text) => Ok(text.clone()),
        Wish::Other => Ok(WHAT_I_AM.to_owned()),
    }
}

/// The first words of a conversation.
fn title(messages: &[Arc<Message>]) -> String {
    let first = messages.first().map(|message| message.text()).unwrap_or_default();
    let words: Vec<&str> = ask::taken_apart(&first).1.split_whitespace().take(4).collect();
    let title = words.join(" ");
    let mut chars = title.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => "New conversation".to_owned(),
    }
}

impl Demo {
    /// The name of the provider and of its one model.
    pub const NAME: &str = "demo";

    pub fn new(config: &DemoConfig) -> Self {
        Self { delay: Duration::from_millis(config.delay_ms) }
    }
}

impl Model for Demo {
    fn provider(&self) -> &'static str {
        Self::NAME
    }

    fn ask(&self, request: ModelRequest) -> ModelStream {
        let answer = answer(Question {
            system: &request.system,
            messages: &request.messages,
            tools: &request.tools,
        });
        let events = stream::iter(events(&request, answer));
        let delay = self.delay;
        if delay.is_zero() {
            return events.boxed();
        }
        events
            .then(move |event| async move {
                tokio::time::sleep(delay).await;
                event
            })
            .boxed()
    }
}

fn events(request: &ModelRequest, answer: Answer) -> Vec<Result<ModelEvent, ModelError>> {
    let mut events = Vec::new();
    let parts = match answer {
        Answer::Text(text) => {
            events.extend(deltas(&text).map(|piece| Ok(ModelEvent::Text(piece.to_owned()))));
            vec![Part::assistant_text(text)]
        }
        Answer::Calls(calls) => {
            let name = |call: &ToolCall| call.name.clone();
            events.extend(calls.iter().map(|call| Ok(ModelEvent::Calling { name: name(call) })));
            calls.into_iter().map(Part::call).collect()
        }
    };
    let reply = ModelReply {
        model: Demo::NAME.to_owned(),
        usage: Usage {
            input_tokens: Some(read_words(request)),
            output_tokens: Some(parts.iter().map(part_words).sum()),
        },
        parts,
        blocks: None,
    };
    events.push(Ok(ModelEvent::Done(Box::new(reply))));
    events
}

/// The text in pieces of a word each, with what follows it.
pub fn deltas(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

/// The demo model's tokens are words.
fn read_words(request: &ModelRequest) -> u64 {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    words_in(&request.system) + words_in(&request.context) + parts.map(part_words).sum::<u64>()
}

fn part_words(part: &Part) -> u64 {
    use famulus_core::message::PartBody;
    match &part.body {
        PartBody::Text { text } | PartBody::Reasoning { text } => words_in(text),
        PartBody::ToolCall(call) => words_in(&call.arguments),
        PartBody::ToolResult(result) => words_in(result.output.text()),
        PartBody::Image(_) | PartBody::Audio(_) | PartBody::File(_) | PartBody::Sentinel { .. } => {
            0
        }
    }
}

fn words_in(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}
