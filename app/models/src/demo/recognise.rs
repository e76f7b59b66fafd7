//! What a single clause asks for, told by how it opens.

use super::intent::Intent;
use super::phrase::{ended, strip, strip_end, subject, without_politeness};
use super::{plugins, when, words};

pub(crate) fn recognise(text: &str) -> Option<Intent> {
    let text = without_politeness(text.trim());
    schedule(text)
        .or_else(|| plugins::recognise(text))
        .or_else(|| lists(text))
        .or_else(|| cancels(text))
        .or_else(|| note(text))
        .or_else(|| forget(text))
        .or_else(|| remember(text))
        .or_else(|| time(text))
        .or_else(|| recall(text))
        .or_else(|| help(text))
}

fn schedule(text: &str) -> Option<Intent> {
    const OPENINGS: &[&str] = &[
        "remind me",
        "set a reminder",
        "set an alarm",
        "set a timer",
        "wake me",
        "schedule",
        "add a reminder",
        "create a reminder",
        "create a schedule",
        "add a schedule",
    ];
    const QUESTIONS: &[&str] = &["what", "of", "who", "where", "which", "when", "how"];
    let opened = OPENINGS.iter().find_map(|opening| strip(text, opening));
    let found = when::find(text);
    if let Some(rest) = opened {
        return Some(match found {
            Some((when, note)) => Intent::Schedule { note: note_of(&note), when },
            None if QUESTIONS.iter().any(|word| strip(rest, word).is_some()) => {
                Intent::Recall(topic(rest))
            }
            None => Intent::ScheduleWhen { note: note_of(text) },
        });
    }
    let (when, note) = found?;
    let begins = when::begins(text);
    let asks = begins && OPENINGS.iter().any(|opening| strip(&note, opening).is_some());
    let note = note_of(&note);
    (((begins && when.repeats()) || asks) && !note.is_empty())
        .then_some(Intent::Schedule { note, when })
}

/// What is left of a schedule's words once the opening and the time are taken away.
fn note_of(text: &str) -> String {
    const FILLERS: &[&str] = &[
        "remind me",
        "set a reminder",
        "set an alarm",
        "set a timer",
        "wake me up",
        "wake me",
        "schedule",
        "add a reminder",
        "create a reminder",
        "create a schedule",
        "add a schedule",
        "please",
        "to",
        "that",
        "about",
        "for",
        ":",
        ",",
        "-",
    ];
    let mut text = text.trim();
    while let Some(rest) = FILLERS.iter().find_map(|filler| strip(text, filler)) {
        text = rest;
    }
    text.trim_end_matches(['.', ',', ' ']).to_owned()
}

fn lists(text: &str) -> Option<Intent> {
    const VERBS: &[&str] = &[
        "list",
        "show me",
        "show",
        "what are",
        "which",
        "what",
        "do i have any",
        "do i have",
        "are there any",
    ];
    const OWNERS: &[&str] = &["all of my", "all my", "all the", "all", "my", "the"];
    const REST: &[&str] =
        &["", "do i have", "are there", "do you have", "have i made", "have i set"];
    let rest = VERBS
        .iter()
        .find_map(|verb| strip(text, verb))
        .or_else(|| Some(text).filter(|_| strip(text, "my").is_some()))?;
    let rest = OWNERS.iter().find_map(|owner| strip(rest, owner)).unwrap_or(rest);
    let noun = |nouns: &[&str]| {
        nouns
            .iter()
            .find_map(|noun| strip(rest, noun))
            .is_some_and(|rest| REST.contains(&ended(rest).to_lowercase().as_str()))
    };
    if noun(&["schedules", "schedule", "reminders", "timers", "alarms"]) {
        Some(Intent::ListSchedules)
    } else if noun(&["notes", "scratchpad", "pages", "note titles"]) {
        Some(Intent::ListNotes)
    } else if noun(&["memories", "memory"]) {
        Some(Intent::Recall(None))
    } else {
        None
    }
}

fn cancels(text: &str) -> Option<Intent> {
    if let Some(rest) = strip(text, "stop reminding me") {
        return Some(Intent::CancelSchedule(subject(rest)));
    }
    let rest = ["cancel", "delete", "remove", "stop"].iter().find_map(|verb| strip(text, verb))?;
    let all = ["all of my", "all my", "all the", "all"].iter().find_map(|word| strip(rest, word));
    let rest = all.or_else(|| strip(rest, "my")).or_else(|| strip(rest, "the")).unwrap_or(rest);
    let rest = ["schedules", "schedule", "reminders", "reminder", "timer", "alarm"]
        .iter()
        .find_map(|noun| strip(rest, noun))?;
    let which = if all.is_some() { "all".to_owned() } else { subject(rest) };
    Some(Intent::CancelSchedule(which))
}

fn note(text: &str) -> Option<Intent> {
    let own = |text| {
        let rest = ["my", "the", "a"].iter().find_map(|word| strip(text, word)).unwrap_or(text);
        strip(rest, "note").or_else(|| strip(rest, "page"))
    };
    if let Some(rest) = ["delete", "remove"].iter().find_map(|verb| strip(text, verb)) {
        return own(rest).map(|rest| Intent::DeleteNote(subject(rest)));
    }
    let reads = ["read", "open", "show me", "show", "what's in", "what is in", "what does"];
    if let Some(rest) = reads.iter().find_map(|verb| strip(text, verb)).and_then(own) {
        let rest = subject(rest);
        return Some(Intent::ReadNote(rest.strip_suffix(" say").unwrap_or(&rest).to_owned()));
    }
    let writes = [
        "note down",
        "write down",
        "make a note",
        "take a note",
        "add a note",
        "write a note",
        "save a note",
        "create a note",
        "note that",
        "note",
    ];
    let rest = writes.iter().find_map(|opening| strip(text, opening))?;
    let rest = ["called", "titled", "named", "about", "that", "of", ":"]
        .iter()
        .find_map(|word| strip(rest, word))
        .unwrap_or(rest);
    if rest.is_empty() {
        return None;
    }
    let (title, body) = match rest.split_once(':') {
        Some((title, body)) if !title.trim().is_empty() && !body.trim().is_empty() => {
            (title.trim().to_owned(), body.trim().to_owned())
        }
        Some(_) | None => {
            (rest.split_whitespace().take(4).collect::<Vec<_>>().join(" "), rest.to_owned())
        }
    };
    Some(Intent::WriteNote { title, body })
}

fn forget(text: &str) -> Option<Intent> {
    let rest = strip(text, "forget").or_else(|| {
        let rest = ["delete", "remove", "erase"].iter().find_map(|verb| strip(text, verb))?;
        let rest = ["all my", "all the", "all", "my", "the"]
            .iter()
            .find_map(|word| strip(rest, word))
            .unwrap_or(rest);
        let noun = strip(rest, "memory").or_else(|| strip(rest, "memories"))?;
        let all = ended(noun).is_empty() && strip(rest, "memories").is_some();
        Some(if all { "everything" } else { noun })
    })?;
    let rest = subject(rest);
    let all = matches!(
        rest.to_lowercase().as_str(),
        "everything" | "all" | "it all" | "everything you know" | "all of it"
    );
    Some(if all { Intent::ForgetAll } else { Intent::Forget(rest) })
}

fn remember(text: &str) -> Option<Intent> {
    let openings =
        ["remember", "memorize", "memorise", "keep in mind", "don't forget", "do not forget"];
    let rest = openings.iter().find_map(|opening| strip(text, opening))?;
    if text.trim_end().ends_with('?') {
        return Some(Intent::Recall(topic(rest)));
    }
    let fact = strip(rest, "that").unwrap_or(rest);
    let fact = ended(fact.trim_start_matches([':', ' ']));
    (!fact.is_empty()).then(|| Intent::Remember(fact.to_owned()))
}

fn time(text: &str) -> Option<Intent> {
    const OPENINGS: &[&str] = &[
        "what time is it",
        "what time it is",
        "what's the time",
        "what is the time",
        "tell me the time",
        "tell me what time it is",
        "give me the time",
        "what's the current time",
        "the current time",
        "what is the current time",
        "what day is it",
        "what day is today",
        "what date is it",
        "what's the date",
        "what is the date",
        "what's today's date",
        "tell me the date",
        "what time",
        "the time",
        "time",
    ];
    let rest = OPENINGS.iter().find_map(|opening| strip(text, opening))?;
    let mut rest = ended(rest);
    for filler in ["right now", "now", "please", "today", "is it"] {
        rest = strip_end(rest, filler);
    }
    for filler in ["is it", "now", "there"] {
        rest = strip(rest, filler).unwrap_or(rest);
    }
    if rest.is_empty() {
        return Some(Intent::Time { place: None });
    }
    let place = strip(rest, "in").or_else(|| strip(rest, "at"))?;
    let place = ended(place);
    (!place.is_empty()).then(|| Intent::Time { place: Some(place.to_owned()) })
}

fn recall(text: &str) -> Option<Intent> {
    const OPENINGS: &[&str] = &[
        "recall",
        "what do you know",
        "what do you remember",
        "do you remember",
        "do you know my",
        "do you know",
        "what did i tell you",
        "what have i told you",
        "what did i say",
        "what's my",
        "what is my",
        "what are my",
        "what was my",
        "what were my",
        "who is my",
        "who's my",
        "who are my",
        "where is my",
        "where's my",
        "where are my",
        "when is my",
        "when's my",
        "which is my",
        "how old is my",
        "tell me about my",
        "what is the name of my",
        "what's the name of my",
        "what am i",
        "who am i",
        "where am i",
        "what do i",
        "where do i",
        "when do i",
        "tell me what you know",
        "tell me what you remember",
        "how is my",
        "is my",
    ];
    let rest = OPENINGS.iter().find_map(|opening| strip(text, opening))?;
    Some(Intent::Recall(topic(rest)))
}

fn help(text: &str) -> Option<Intent> {
    const ASKED: &[&str] = &[
        "",
        "help",
        "help me",
        "what can you do",
        "what can you do for me",
        "what can you help me with",
        "what can you help with",
        "what can i do",
        "what can i do here",
        "what can i ask you",
        "what can i ask",
        "what can i say",
        "what do you do",
        "what are you able to do",
        "what else can you do",
        "how can you help",
        "how can you help me",
        "how can i use you",
        "how do i use you",
        "how do i use this",
        "tell me what you can do",
        "show me what you can do",
        "who are you",
        "what are you",
        "how do you work",
        "how does this work",
        "what is this",
        "what s this",
        "start",
    ];
    const FILLERS: &[&str] = &["famulus", "please", "today", "now", "then"];
    const GREETINGS: &[&str] = &[
        "hello",
        "hi",
        "hey",
        "hallo",
        "hiya",
        "howdy",
        "greetings",
        "good",
        "morning",
        "evening",
        "afternoon",
        "day",
        "there",
        "famulus",
    ];
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let greeting = words.iter().take_while(|word| GREETINGS.contains(word)).count();
    let mut asked = &words[greeting..];
    while let Some((_, before)) = asked.split_last().filter(|(last, _)| FILLERS.contains(last)) {
        asked = before;
    }
    let said = greeting > 0 || !asked.is_empty();
    (said && ASKED.contains(&asked.join(" ").as_str())).then_some(Intent::Help)
}

/// A topic to be matched, if the text names one.
fn topic(text: &str) -> Option<String> {
    let text = ended(text);
    (!words::keywords(text).is_empty()).then(|| text.to_owned())
}
