//! What is meant by what was said: the first pattern that fits, without regard to case.
//!
//! A message may ask for two things. It is cut at the end of a sentence or an *and*, but only where
//! what follows fits a pattern too; everything else stays together.

use super::ask::{Ask, Speaker};
use super::plugins::{self, Life};
use super::reminders::{self, When};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    Help,
    Remember(String),
    Recall(String),
    Forget(String),
    Time,
    Remind {
        note: String,
        when: When,
    },
    /// A reminder whose time is not understood.
    RemindWhen,
    RunTool {
        plugin: String,
        tool: String,
        parameters: Value,
    },
    /// Something with a plugin itself.
    Plugin(Life),
    SendFile,
    /// These words, as a recording.
    Say(String),
    /// A file came without a word.
    Got(String),
    /// A recording was not heard.
    Unheard(String),
    /// A schedule has come due.
    Reminder(String),
    /// What a plugin's tool came to, which is data whatever it says.
    LateResult(String),
    Other,
}

/// Makes a wish of what stands for the `*`.
type Read = fn(&str) -> Option<Wish>;

/// `*` stands for the rest; a pattern without it ends where its sentence ends.
const PATTERNS: &[(&str, Read)] = &[
    ("hello", |_| Some(Wish::Help)),
    ("hi", |_| Some(Wish::Help)),
    ("help", |_| Some(Wish::Help)),
    ("what can you do", |_| Some(Wish::Help)),
    ("remember that *", |fact| Some(Wish::Remember(fact.to_owned()))),
    ("remember *", |fact| Some(Wish::Remember(fact.to_owned()))),
    ("what is my *", |topic| Some(Wish::Recall(topic.to_owned()))),
    ("forget *", |topic| Some(Wish::Forget(topic.to_owned()))),
    ("what time is it", |_| Some(Wish::Time)),
    ("tell me the time", |_| Some(Wish::Time)),
    ("remind me *", |text| Some(remind(text))),
    ("send it back", |_| Some(Wish::SendFile)),
    ("send me the file", |_| Some(Wish::SendFile)),
    ("say *", |words| Some(Wish::Say(words.to_owned()))),
    ("throw the die", |_| plugins::read("throw_die of dice")),
    ("run *", plugins::read),
    ("install *", plugins::install),
    ("update *", plugins::update),
    ("roll back *", |name| plugins::named(name, Life::RollBack)),
    ("remove the plugin *", |name| plugins::named(name, Life::Remove)),
    ("set *", plugins::set),
];

/// The wishes of the open question, in order.
pub(crate) fn read(ask: &Ask) -> Vec<Wish> {
    let texts = ask.texts.iter();
    match ask.speaker {
        Speaker::Person => {
            let unheard = ask.deaf.iter().cloned().map(Wish::Unheard);
            let got = ask.got.iter().cloned().map(Wish::Got);
            texts.flat_map(|text| in_text(text)).chain(unheard).chain(got).collect()
        }
        Speaker::Schedule => texts.map(|text| Wish::Reminder(note_of(text))).collect(),
        Speaker::Plugin => texts.cloned().map(Wish::LateResult).collect(),
    }
}

/// The note of a schedule that is due, without what is said around it.
fn note_of(text: &str) -> String {
    let note = text.split_once("\nIts note: ").map_or(text, |(_, behind)| behind);
    note.rsplit_once("\n\n").map_or(note, |(note, _)| note).to_owned()
}

fn in_text(text: &str) -> Vec<Wish> {
    let text = without_marks(text);
    let mut wishes: Vec<Wish> = clauses(&text).into_iter().filter_map(wish).collect();
    wishes.dedup();
    // A greeting in front of a wish is only a greeting.
    if wishes.len() > 1 {
        wishes.retain(|wish| *wish != Wish::Help);
    }
    if wishes.is_empty() {
        wishes.push(Wish::Other);
    }
    wishes
}

/// Without the lines in which a fence begins and ends, as around words that were heard: nobody said them.
fn without_marks(text: &str) -> String {
    let is_mark = |line: &&str| line.starts_with("--- ") && line.ends_with(" ---");
    text.lines().filter(|line| !is_mark(line)).collect::<Vec<_>>().join("\n")
}

/// Cuts a text where something new is asked for.
fn clauses(text: &str) -> Vec<&str> {
    const CUTS: &[&str] = &[". ", "! ", "? ", " and ", "\n"];
    let (mut clauses, mut start) = (Vec::new(), 0);
    for (at, _) in text.char_indices() {
        let rest = &text[at..];
        let next = CUTS.iter().find_map(|cut| rest.strip_prefix(cut));
        if let Some(next) = next.filter(|next| wish(next).is_some()) {
            clauses.push(&text[start..at]);
            start = text.len() - next.len();
        }
    }
    clauses.push(&text[start..]);
    clauses
}

fn wish(clause: &str) -> Option<Wish> {
    let clause = clause.trim();
    PATTERNS.iter().find_map(|(pattern, read)| read(fit(clause, pattern)?))
}

/// What stands for the `*` of a pattern that fits.
fn fit<'t>(clause: &'t str, pattern: &str) -> Option<&'t str> {
    let opening = pattern.trim_end_matches(" *");
    let head = clause.get(..opening.len())?;
    let rest = &clause[head.len()..];
    let fits = if opening == pattern {
        rest.is_empty() || rest.starts_with(MARKS)
    } else {
        rest.starts_with(' ') && !ended(rest).is_empty()
    };
    (fits && head.eq_ignore_ascii_case(opening)).then(|| ended(rest))
}

const MARKS: [char; 4] = ['.', '!', '?', ','];

/// Without the marks at the end of a sentence.
fn ended(text: &str) -> &str {
    text.trim_end_matches(MARKS).trim()
}

fn remind(text: &str) -> Wish {
    reminders::read(text)
        .map_or(Wish::RemindWhen, |(when, note)| Wish::Remind { note: note.to_owned(), when })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let check = |text: &str, expected: &[Wish]| assert_eq!(in_text(text), expected, "{text}");
        let s = ToOwned::to_owned;
        let one = |text: &str, wish: Wish| check(text, &[wish]);
        let miso = Wish::Remember(s("my cat is called Miso"));

        for text in ["hello", "Help!", "What can you do?", "Hello! What can you do?"] {
            one(text, Wish::Help);
        }
        one("Remember that my cat is called Miso.", miso.clone());
        // As words that were heard come over the wire.
        let heard = "voice.ogg\n--- the words in it; ends at ab12 ---\nremember that the tea is green\n--- ab12 ---";
        one(heard, Wish::Remember(s("the tea is green")));
        one("remember I like salt and pepper", Wish::Remember(s("I like salt and pepper")));
        check("Remember that my cat is called Miso. What time is it?", &[miso.clone(), Wish::Time]);
        check("remember that my cat is called Miso and tell me the time", &[miso, Wish::Time]);
        one("What is my cat called?", Wish::Recall(s("cat called")));
        one("forget my cat", Wish::Forget(s("my cat")));
        one("What time is it? (3-17)", Wish::Time);
        one("Hello! What time is it?", Wish::Time);
        one(
            "Remind me every day at 9 to water the plants",
            Wish::Remind { note: s("water the plants"), when: When::Daily { hour: 9, minute: 0 } },
        );
        one("remind me to drink tea", Wish::RemindWhen);
        for text in
            ["", "forget", "hit me", "what time is it in Tokyo?", "write a poem and list its words"]
        {
            one(text, Wish::Other);
        }
    }

    #[test]
    fn only_a_person_asks_for_something() {
        let check = |speaker, expected: fn(String) -> Wish| {
            let text = "remember that I said so".to_owned();
            let ask = Ask { texts: vec![text.clone()], speaker, ..Ask::default() };
            assert_eq!(read(&ask), [expected(text)]);
        };
        check(Speaker::Schedule, Wish::Reminder);
        check(Speaker::Plugin, Wish::LateResult);
        check(Speaker::Person, |_| Wish::Remember("I said so".to_owned()));
    }
}
