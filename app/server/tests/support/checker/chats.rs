//! Whatever somebody wrote on a platform is there once and answered once; every reply stands in the
//! chat once, whole and in order, or nobody knows, and then the owner was told so, once.
//!
//! The daemon of Signal forgets what it has written to a stream, and each message is kept before the next is
//! read: what a stream that ended took along is the last of what it was told, and nothing in the middle.

use super::tables::{Outbound, Tables, Turn};
use crate::support::{
    platforms::{Chat, Platforms, Shown},
    workload::Written,
    world::World,
};
use famulus_scripted_signal::Handed;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Beside replies a bot says only what stands here: the code of a stranger, and questions, each of which
/// says in the end what became of it.
const CODE: &str = "I do not know you yet.";
const QUESTION: &str = "May I";
const ANSWERED: [&str; 4] = ["Approved", "Denied", "Nobody answered in time", "Withdrawn"];
/// How the installation's own words to its owner are keyed.
const NOTICE: &str = "notice ";

/// What is of a platform, and so not of whoever talks over HTTP.
pub(super) fn is_of_chat(turn: &Turn) -> bool {
    turn.origin_channel.as_deref().is_some_and(|channel| ["telegram", "signal"].contains(&channel))
}

/// What the installation tells its owner by itself.
pub(super) fn is_notice(external_id: Option<&str>) -> bool {
    external_id.is_some_and(|key| key.starts_with(NOTICE))
}

pub(super) fn check(world: &World, tables: &Tables, found: &mut Vec<String>) {
    check_told(tables, found);
    let Some(platforms) = &world.platforms else { return };
    let stored = Stored::of(tables);
    let mut written = world.log.written();
    let lost = lost_with_their_streams(platforms, &stored, &written);
    written.retain(|one| !one.told.is_some_and(|told| lost.contains(&told)));
    check_written(platforms, tables, &stored, &written, found);
    let chats: BTreeSet<Chat> = written.iter().map(|one| one.chat).collect();
    for chat in chats {
        let turns = turns_of(tables, &stored, &written, chat);
        check_chat(platforms, tables, chat, &turns, found);
    }
}

/// What is nowhere, and was the last of each stream that was told it: those have ended, and nothing that they
/// alone were told afterwards is stored.
fn lost_with_their_streams(
    platforms: &Platforms,
    stored: &Stored<'_>,
    written: &[Written],
) -> BTreeSet<i64> {
    let handed = platforms.signal.handed();
    let numbers = written.iter().filter_map(|one| Some((one.told?, one)));
    let numbers: BTreeMap<i64, &Written> = numbers.collect();
    let is_stored = |time: &i64| {
        numbers.get(time).is_some_and(|written| !stored.as_written(written).is_empty())
    };
    let took_along = |place: usize, stream: u64| {
        let alone = |one: &&Handed| one.streams == [stream];
        !handed[place + 1..].iter().filter(alone).any(|one| is_stored(&one.timestamp))
    };
    let is_lost = |place: usize, one: &Handed| {
        let ended = !one.is_in_open_stream && !one.streams.is_empty();
        let last = one.streams.iter().all(|stream| took_along(place, *stream));
        ended && last && numbers.contains_key(&one.timestamp) && !is_stored(&one.timestamp)
    };
    let all = handed.iter().enumerate();
    all.filter(|(place, one)| is_lost(*place, one)).map(|(_, one)| one.timestamp).collect()
}

/// Each once, in a turn that answers it, and in the order of its chat. What the owner is told nobody writes, and it is
/// held to what it is about: see [`check_told`]. Whoever stood still with a stream of
/// Signal's stores late what it was told, and then that is the order of each stream.
fn check_written(
    platforms: &Platforms,
    tables: &Tables,
    stored: &Stored<'_>,
    written: &[Written],
    found: &mut Vec<String>,
) {
    let handed = platforms.signal.handed().into_iter();
    let streams: BTreeMap<i64, Vec<u64>> = handed.map(|one| (one.timestamp, one.streams)).collect();
    // What joins a turn that runs is read before what waits for its own.
    let mut places: BTreeMap<(Chat, Option<&Vec<u64>>), Vec<i64>> = BTreeMap::new();
    let mut known: BTreeSet<Uuid> = BTreeSet::new();
    for one in written {
        let there = stored.as_written(one);
        let [message] = there else {
            found.push(format!("message {}: is stored {} times", one.number, there.len()));
            continue;
        };
        known.insert(message.id);
        let streams = one.told.and_then(|told| streams.get(&told));
        places.entry((one.chat, streams)).or_default().push(message.seq);
        match tables.turns.get(&message.turn) {
            Some(turn) if turn.is_complete() => {
                let text = tables.reply(turn.id);
                if !text.contains(&format!("[{}]", one.number)) {
                    found.push(format!("message {}: was answered by {text}", one.number));
                }
            }
            other => found.push(format!(
                "message {}: its turn is {:?}",
                one.number,
                other.map(|turn| (turn.state.as_str(), turn.error.as_deref()))
            )),
        }
    }
    for ((chat, _), places) in places {
        if !places.is_sorted() {
            found.push(format!("chat {chat}: what was written stands in order {places:?}"));
        }
    }
    let of_chats = |turn: &Uuid| tables.turns.get(turn).is_some_and(is_of_chat);
    for message in tables.all_messages().filter(|one| one.is("user") && of_chats(&one.turn)) {
        let is_told = is_notice(message.external_id.as_deref());
        if !known.contains(&message.id) && !is_told {
            found.push(format!("message {}: nobody wrote {:?}", message.id, message.text()));
        }
    }
}

/// What people asked, by the number that stands in it.
pub(super) struct Stored<'a>(BTreeMap<u64, Vec<&'a super::tables::Message>>);

impl<'a> Stored<'a> {
    pub(super) fn of(tables: &'a Tables) -> Self {
        let mut stored: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for message in tables.all_messages().filter(|one| one.is("user")) {
            let text = message.text();
            let numbers = text.split("msg ").skip(1).filter_map(|rest| rest.split_once(':'));
            let numbers: BTreeSet<u64> =
                numbers.filter_map(|(number, _)| number.parse().ok()).collect();
            for number in numbers {
                stored.entry(number).or_default().push(message);
            }
        }
        Self(stored)
    }

    fn as_written(&self, written: &Written) -> &[&'a super::tables::Message] {
        self.0.get(&written.number).map_or(&[], Vec::as_slice)
    }

    /// The turn that a message is in.
    pub(super) fn turn_of(&self, written: &Written) -> Option<Uuid> {
        self.as_written(written).first().map(|message| message.turn)
    }
}

/// The turns of a chat, in their order: of what was written there, and of what the owner is told there.
fn turns_of<'a>(
    tables: &'a Tables,
    stored: &Stored<'_>,
    written: &[Written],
    chat: Chat,
) -> Vec<&'a Turn> {
    let of_chat = written.iter().filter(|one| one.chat == chat);
    let is_sent_there = |turn: &Uuid| {
        let to = chat.to_string();
        tables.outbox.iter().any(|one| one.turn == Some(*turn) && one.chat == to)
    };
    let told = tables.all_messages().filter(|one| is_notice(one.external_id.as_deref()));
    let told = told.map(|message| message.turn).filter(is_sent_there);
    let of_chat = of_chat.flat_map(|one| stored.as_written(one)).map(|message| message.turn);
    let ids: BTreeSet<Uuid> = of_chat.chain(told).collect();
    let mut turns: Vec<&Turn> = ids.iter().filter_map(|id| tables.turns.get(id)).collect();
    turns.sort_by_key(|turn| turn.ord);
    turns
}

fn check_chat(
    platforms: &Platforms,
    tables: &Tables,
    chat: Chat,
    turns: &[&Turn],
    found: &mut Vec<String>,
) {
    let mut shown: BTreeMap<Uuid, Vec<(usize, String)>> = BTreeMap::new();
    let replies: Vec<(Uuid, String)> =
        turns.iter().map(|turn| (turn.id, bare(&tables.reply(turn.id)))).collect();
    // Of a question that may have arrived another one was sent.
    let lost = |one: &&Outbound| one.turn.is_none() && one.state == "unknown";
    let mut may_stay_open = tables.outbox.iter().filter(lost).count();
    let mut codes = 0;
    for (place, message) in platforms.sent_to(chat).iter().enumerate() {
        if message.text.starts_with(CODE) {
            codes += 1;
            continue;
        }
        if message.text.starts_with(QUESTION) && may_stay_open > 0 {
            may_stay_open -= 1;
            continue;
        }
        if message.text.starts_with(QUESTION) {
            found.push(format!("chat {chat}: a question is still open: {:?}", brief(message)));
            continue;
        }
        if message.edits > 0 && ANSWERED.iter().any(|word| message.text.starts_with(word)) {
            if message.has_buttons {
                found
                    .push(format!("chat {chat}: what is closed has buttons: {:?}", brief(message)));
            }
            continue;
        }
        let text = bare(&message.text);
        match replies.iter().find(|(_, reply)| reply.contains(&text)) {
            Some((turn, _)) => shown.entry(*turn).or_default().push((place, text)),
            None => found.push(format!("chat {chat}: no reply says {:?}", brief(message))),
        }
    }
    // One that may have arrived is told again, so that whoever waits for it has it.
    let of_code = |one: &&Outbound| one.chat == chat.to_string() && one.markdown.starts_with(CODE);
    let begun: i32 = tables.outbox.iter().filter(of_code).map(|one| one.attempts).sum();
    if codes < 1 || codes > begun {
        found.push(format!("chat {chat}: was told {codes} codes, begun were {begun}"));
    }
    let mut delivered: Vec<usize> = Vec::new();
    for turn in turns {
        let sent: Vec<&Outbound> =
            tables.outbox.iter().filter(|one| one.turn == Some(turn.id)).collect();
        let [outbound] = sent.as_slice() else {
            found.push(format!("turn {}: has {} replies", turn.id, sent.len()));
            continue;
        };
        let whole = bare(&tables.reply(turn.id));
        let pieces = shown.remove(&turn.id).unwrap_or_default();
        let text: String = pieces.iter().map(|(_, text)| text.as_str()).collect();
        let fits = match outbound.state.as_str() {
            "delivered" => text == whole,
            // From the first piece to one of which nobody knows.
            "unknown" => whole.starts_with(&text),
            _ => false,
        };
        if !fits {
            found.push(format!("reply {}: is {}, shown {pieces:?}", outbound.id, outbound.state));
        }
        if outbound.state == "delivered" {
            delivered.extend(pieces.iter().map(|(place, _)| *place));
        }
    }
    if !delivered.is_sorted() {
        found.push(format!("chat {chat}: replies stand in order {delivered:?}"));
    }
}

/// The owner is told once of each reply that may have arrived, and of nothing else.
fn check_told(tables: &Tables, found: &mut Vec<String>) {
    let notices: Vec<&str> = tables
        .all_messages()
        .filter_map(|message| message.external_id.as_deref())
        .filter(|key| is_notice(Some(key)))
        .collect();
    let unknown: Vec<&Outbound> =
        tables.outbox.iter().filter(|one| one.state == "unknown" && one.turn.is_some()).collect();
    for outbound in &unknown {
        let id = outbound.id.to_string();
        let told = notices.iter().filter(|key| key.contains(&id)).count();
        if told != 1 {
            found.push(format!("reply {id}: is unknown, and the owner was told {told} times"));
        }
    }
    if notices.len() != unknown.len() {
        found.push(format!("the owner was told {notices:?}, unknown are {}", unknown.len()));
    }
}

/// Between pieces and around styles only white space changes.
fn bare(text: &str) -> String {
    text.split_whitespace().collect()
}

fn brief(message: &Shown) -> String {
    message.text.chars().take(100).collect()
}
