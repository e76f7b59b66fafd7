//! What is done for each intent, and what is said of it.
//!
//! Written as if tools answered at once; see [`super::memo`] for how that comes true.

use super::ask::Ask;
use super::intent::Intent;
use super::memo::{self, Halt, Memo, Wanted};
use super::{plugins, schedules, words};
use famulus_core::tool::ToolOutput;
use jiff::civil::DateTime;
use serde_json::{Map, Value, json};

const KNOWLEDGE: &str = "manage_knowledge";
const TIME: &str = "get_time";

/// Most memories that are deleted at once: each asks the owner.
const MOST_AT_ONCE: usize = 10;

const HELP: &str = "Hello! I am the demo model of this assistant: a few fixed rules, no language model. I do use the real tools, and what I tell you comes from their results. Try:

- `remember that my cat is called Miso`, then `what is my cat called?`
- `remind me in 10 minutes to drink tea`, or `every day at 9 water the plants`
- `list my schedules`, `cancel schedule 1`
- `note shopping: milk, eggs`, then `read my note shopping`
- `what time is it in Tokyo?`
- `list my plugins`, `run look of weather with city=Berlin`
- `forget my cat` (I ask you first)

You may ask for two things at once. For a real conversation, set `model.base_url`, `model.name` and `model.api_key` in the configuration and start again.";

const WHAT_I_AM: &str = "I am only the demo model: a few fixed rules, no language model, so I cannot answer that. For a real conversation, set `model.base_url`, `model.name` and `model.api_key` in the configuration and start again. Say `help` to see what I can do.";

/// One entry of a list that a tool gave.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) body: String,
    /// All of it, for what else it may tell.
    pub(crate) whole: Value,
}

impl Entry {
    fn named(&self) -> &str {
        if self.title.is_empty() { &self.body } else { &self.title }
    }
}

pub(crate) fn run(intent: &Intent, memo: &Memo<'_>, ask: &Ask) -> Result<String, Halt> {
    match intent {
        Intent::Remember(fact) => remember(fact, memo),
        Intent::Recall(topic) => recall(topic.as_deref(), memo),
        Intent::Forget(topic) => forget(topic, memo),
        Intent::ForgetAll => forget_all(memo),
        Intent::Time { place } => time(place.as_deref(), memo),
        Intent::Schedule { note, when } => schedules::create(note, when, memo, ask),
        Intent::ScheduleWhen { note } => Ok(format!(
            "When? Say for example `remind me in 10 minutes to {note}`, or `every day at 9 {note}`."
        )),
        Intent::ListSchedules => schedules::list(memo, ask),
        Intent::CancelSchedule(which) => schedules::cancel(which, memo),
        Intent::WriteNote { title, body } => write_note(title, body, memo),
        Intent::ListNotes => list_notes(memo),
        Intent::ReadNote(topic) => read_note(topic, memo),
        Intent::DeleteNote(topic) => delete_note(topic, memo),
        Intent::ListPlugins => plugins::list(memo),
        Intent::RunPlugin { plugin, tool, parameters } => {
            plugins::run(plugin, tool, parameters, memo)
        }
        Intent::LateResult(text) => Ok(text.clone()),
        Intent::Help => Ok(HELP.to_owned()),
        Intent::Reminder(note) => Ok(format!("Reminder: {note}")),
        Intent::Other(text) => other(text, memo, ask),
    }
}

fn remember(fact: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    let stored = memo.call(Wanted::write(
        KNOWLEDGE,
        json!({"action": "upsert", "store": "memory", "content": fact}),
    ))?;
    let kept = text_in(&stored, &["body", "content", "text"]).unwrap_or(fact);
    Ok(format!("I will remember: {kept}"))
}

fn recall(topic: Option<&str>, memo: &Memo<'_>) -> Result<String, Halt> {
    let memories = list("memory", memo)?;
    if memories.is_empty() {
        return Ok("I remember nothing yet. Tell me something with `remember that ...`.".to_owned());
    }
    let Some(topic) = topic else {
        return Ok(format!("This is what I remember:\n{}", bullets(memories.iter())));
    };
    match &*matching(topic, &memories) {
        [] => Ok("I remember nothing about that. Tell me with `remember that ...`.".to_owned()),
        [one] => Ok(format!("You told me: {}", one.body)),
        some => Ok(format!("You told me:\n{}", bullets(some.iter().copied()))),
    }
}

fn forget(topic: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    if words::keywords(topic).is_empty() {
        return Ok("What shall I forget? Say for example `forget my cat`.".to_owned());
    }
    let memories = list("memory", memo)?;
    match &*matching(topic, &memories) {
        [] => Ok("I remember nothing like that, so there is nothing to forget.".to_owned()),
        [one] => {
            memo.call(delete("memory", &one.id))?;
            Ok(format!("I have forgotten: {}", one.body))
        }
        some => Ok(format!(
            "More than one memory is like that. Which of these shall I forget?\n{}",
            bullets(some.iter().copied())
        )),
    }
}

fn forget_all(memo: &Memo<'_>) -> Result<String, Halt> {
    let memories = list("memory", memo)?;
    if memories.is_empty() {
        return Ok("I remember nothing, so there is nothing to forget.".to_owned());
    }
    let chosen: Vec<&Entry> = memories.iter().take(MOST_AT_ONCE).collect();
    let calls = chosen.iter().map(|memory| delete("memory", &memory.id)).collect();
    let outputs = memo.all(calls)?;
    let left = memories.len() - chosen.len();
    let mut said = outcomes("I have forgotten", &chosen, &outputs);
    if left > 0 {
        said = format!("{said}\n{left} more are left; say it again for the next ones.");
    }
    Ok(said)
}

/// One line per entry: what came of each.
pub(crate) fn outcomes(done: &str, entries: &[&Entry], outputs: &[&ToolOutput]) -> String {
    let lines: Vec<String> = entries
        .iter()
        .zip(outputs)
        .map(|(entry, output)| match memo::failure(output) {
            None => format!("- {done}: {}", entry.named()),
            Some(failure) => format!("- {}: {failure}", entry.named()),
        })
        .collect();
    lines.join("\n")
}

fn time(place: Option<&str>, memo: &Memo<'_>) -> Result<String, Halt> {
    let arguments = match place {
        Some(place) => json!({"zone": zone(place)}),
        None => json!({}),
    };
    let told = memo.call(Wanted::read(TIME, arguments))?;
    let time = text_in(&told, &["time", "now"]).or_else(|| told.as_str()).unwrap_or("unknown");
    let zone = text_in(&told, &["zone", "time_zone"]).map(|zone| format!(" ({zone})"));
    let zone = zone.unwrap_or_default();
    Ok(match time.parse::<DateTime>() {
        Ok(time) => format!("It is {}{zone}.", time.strftime("%H:%M on %A, %-d %B %Y")),
        Err(_) => format!("It is {time}{zone}."),
    })
}

/// The zone of a city, by the last part of its name; anything else is left for the tool to judge.
fn zone(place: &str) -> String {
    let wanted = place.trim().replace(' ', "_");
    let known = jiff::tz::db().available().map(|name| name.to_string());
    let mut fits: Vec<String> = known
        .filter(|name| {
            name.eq_ignore_ascii_case(&wanted)
                || name.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&wanted))
        })
        .collect();
    // The exact name before a city, and the order of the list must not matter.
    fits.sort_by_key(|name| (!name.eq_ignore_ascii_case(&wanted), name.len(), name.clone()));
    fits.into_iter().next().unwrap_or_else(|| place.trim().to_owned())
}

fn write_note(title: &str, body: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    let pages = list("scratchpad", memo)?;
    let old = pages.iter().find(|page| page.title.eq_ignore_ascii_case(title));
    let mut page = Map::new();
    page.insert("action".into(), "upsert".into());
    page.insert("store".into(), "scratchpad".into());
    if let Some(old) = old {
        page.insert("id".into(), old.id.as_str().into());
    }
    page.insert("title".into(), title.into());
    page.insert("body".into(), body.into());
    let stored = memo.call(Wanted::write(KNOWLEDGE, Value::Object(page)))?;
    let title = text_in(&stored, &["title"]).unwrap_or(title);
    let done = if old.is_some() { "I have replaced the note" } else { "I have written the note" };
    Ok(format!("{done} \"{title}\"."))
}

fn list_notes(memo: &Memo<'_>) -> Result<String, Halt> {
    let pages = list("scratchpad", memo)?;
    if pages.is_empty() {
        return Ok("There are no notes. Write one with `note shopping: milk, eggs`.".to_owned());
    }
    Ok(format!("Your notes:\n{}", bullets(pages.iter())))
}

fn read_note(topic: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    let page = match one_note(topic, memo)? {
        Ok(page) => page,
        Err(said) => return Ok(said),
    };
    let mut text = String::new();
    let mut call = json!({"action": "read", "store": "scratchpad", "id": page.id});
    loop {
        let read = memo.call(Wanted::read(KNOWLEDGE, call.clone()))?;
        let read = read.get("entry").unwrap_or(&read);
        let body = text_in(read, &["body", "content", "text"]).or_else(|| read.as_str());
        text.push_str(body.unwrap_or_default());
        // A piece without text would come again for ever.
        match read.get("next_offset").filter(|offset| offset.is_u64() && body.is_some()) {
            Some(offset) => call["offset"] = offset.clone(),
            None => return Ok(format!("{}:\n{text}", page.title)),
        }
    }
}

fn delete_note(topic: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    let page = match one_note(topic, memo)? {
        Ok(page) => page,
        Err(said) => return Ok(said),
    };
    memo.call(delete("scratchpad", &page.id))?;
    Ok(format!("I have deleted the note \"{}\".", page.title))
}

/// The one note that is meant, or what to say when it is none or several.
fn one_note(topic: &str, memo: &Memo<'_>) -> Result<Result<Entry, String>, Halt> {
    let mut pages = list("scratchpad", memo)?;
    let exact = pages.iter().position(|p| p.title.eq_ignore_ascii_case(topic) || p.id == topic);
    let titles: Vec<String> = pages.iter().map(|page| page.title.clone()).collect();
    let found = exact.map_or_else(|| words::best_matches(topic, &titles), |at| vec![at]);
    Ok(match *found {
        [at] => Ok(pages.swap_remove(at)),
        [] => Err("There is no such note. Say `list my notes` to see which there are.".to_owned()),
        _ => {
            let some = found.iter().filter_map(|at| pages.get(*at));
            Err(format!("More than one note is like that. Which one?\n{}", bullets(some)))
        }
    })
}

fn other(text: &str, memo: &Memo<'_>, ask: &Ask) -> Result<String, Halt> {
    let mut said = Vec::new();
    if !ask.files.is_empty() {
        said.push(format!("I got {}, but I cannot look into files.", ask.files.join(", ")));
    }
    if !words::keywords(text).is_empty() && memo.offers(KNOWLEDGE) {
        // A failed look-up takes nothing from the answer.
        let outputs = memo.all(vec![list_call("memory")])?;
        let memories = outputs.first().map(|output| entries_of(output)).unwrap_or_default();
        let found = matching(text, &memories);
        if !found.is_empty() {
            said.push(format!("I do remember:\n{}", bullets(found.into_iter())));
        }
    }
    said.push(WHAT_I_AM.to_owned());
    Ok(said.join("\n\n"))
}

fn list_call(store: &str) -> Wanted {
    Wanted::read(KNOWLEDGE, json!({"action": "list", "store": store}))
}

fn delete(store: &str, id: &str) -> Wanted {
    Wanted::write(KNOWLEDGE, json!({"action": "delete", "store": store, "id": id}))
}

fn list(store: &str, memo: &Memo<'_>) -> Result<Vec<Entry>, Halt> {
    pages(KNOWLEDGE, list_call(store).arguments, memo)
}

/// A whole list, page by page.
pub(crate) fn pages(
    tool: &'static str,
    arguments: Value,
    memo: &Memo<'_>,
) -> Result<Vec<Entry>, Halt> {
    let mut all = Vec::new();
    let mut next = arguments.clone();
    loop {
        let page = memo.call(Wanted::read(tool, next))?;
        let found = entries(&page);
        let offset = page.get("next_offset").filter(|offset| offset.is_u64());
        // A page without entries would come again for ever.
        let more = offset.filter(|_| !found.is_empty()).cloned();
        all.extend(found);
        let Some(more) = more else { return Ok(all) };
        next = arguments.clone();
        if let Some(object) = next.as_object_mut() {
            object.insert("offset".to_owned(), more);
        }
    }
}

fn entries_of(output: &ToolOutput) -> Vec<Entry> {
    match memo::failure(output) {
        Some(_) => Vec::new(),
        None => {
            serde_json::from_str(output.text()).map(|value| entries(&value)).unwrap_or_default()
        }
    }
}

/// The entries of a list, whatever it is called.
pub(crate) fn entries(value: &Value) -> Vec<Entry> {
    const LISTS: &[&str] = &["entries", "memories", "pages", "schedules", "items", "results"];
    let list = LISTS.iter().find_map(|name| value.get(name)).unwrap_or(value);
    let read = |entry: &Value| {
        let text = |names: &[&str]| text_in(entry, names).unwrap_or_default().to_owned();
        Entry {
            id: text(&["id"]),
            title: text(&["title", "name"]),
            body: text(&["body", "content", "text", "note"]),
            whole: entry.clone(),
        }
    };
    list.as_array().into_iter().flatten().map(read).collect()
}

/// The entries that a topic means: by id, or by the words that they share.
fn matching<'e>(topic: &str, entries: &'e [Entry]) -> Vec<&'e Entry> {
    if let Some(entry) = entries.iter().find(|entry| entry.id == topic) {
        return vec![entry];
    }
    let bodies: Vec<String> = entries.iter().map(|entry| entry.body.clone()).collect();
    let found = words::best_matches(topic, &bodies);
    found.into_iter().filter_map(|at| entries.get(at)).collect()
}

fn bullets<'e>(entries: impl Iterator<Item = &'e Entry>) -> String {
    entries.map(|entry| format!("- {}", entry.named())).collect::<Vec<_>>().join("\n")
}

pub(crate) fn text_in<'v>(value: &'v Value, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| value.get(name)?.as_str()).filter(|text| !text.is_empty())
}
