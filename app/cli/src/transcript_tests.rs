use super::*;
use famulus_core::event::VERSION;
use famulus_core::ids::{ConversationId, MessageId};
use famulus_core::turn::TurnState;
use famulus_core::visible::make_visible;
use proptest::prelude::*;
use uuid::Uuid;

const TURN: TurnId = TurnId(Uuid::from_u128(1));
const OTHER: TurnId = TurnId(Uuid::from_u128(2));
const FIRST: MessageId = MessageId(Uuid::from_u128(11));
const SECOND: MessageId = MessageId(Uuid::from_u128(12));
const ALL: View = View { notes: true, reasoning: true };
const REPLY: View = View { notes: false, reasoning: false };

fn id(fence: i64, number: i64) -> EventId {
    EventId { fence, number }
}

fn at(id: EventId, event: Event) -> Envelope {
    Envelope {
        v: VERSION,
        id,
        conversation: ConversationId(Uuid::from_u128(9)),
        // A tenth of a second between one event and the next.
        at: Timestamp::from_millisecond(id.number * 100).unwrap(),
        event,
    }
}

fn delta(text: &str) -> Event {
    Event::Delta { turn: TURN, kind: DeltaKind::Text, text: text.to_owned() }
}

fn thought(text: &str) -> Event {
    Event::Delta { turn: TURN, kind: DeltaKind::Reasoning, text: text.to_owned() }
}

fn stored(message: MessageId, role: MessageRole) -> Event {
    Event::Message { turn: TURN, message, role }
}

fn tool(name: &str) -> Event {
    let status = Status::ToolRunning { call: "c1".to_owned(), tool: name.to_owned() };
    Event::Status { turn: TURN, status }
}

fn complete(message: Option<MessageId>, text: &str) -> Event {
    Event::Complete { turn: TURN, state: TurnState::Complete, message, text: text.to_owned() }
}

/// Applies events under the ids 5-1, 5-2, …
fn seen(events: Vec<Event>) -> Transcript {
    let mut transcript = Transcript::new(TURN, EventId::START);
    for (index, event) in events.into_iter().enumerate() {
        transcript.apply(&at(id(5, index as i64 + 1), event));
    }
    transcript
}

fn shown(transcript: &Transcript, view: View) -> Vec<String> {
    let mark = |line: Line| if line.dim { format!("~{}", line.text) } else { line.text };
    transcript.lines(view).into_iter().map(mark).collect()
}

#[test]
fn events_become_lines() {
    let check = |events: Vec<Event>, view: View, expected: &[&str]| {
        assert_eq!(shown(&seen(events.clone()), view), expected, "{events:?}");
    };
    check(vec![], ALL, &[]);
    check(vec![delta("Hel"), delta("lo\nyou")], ALL, &["Hello", "you"]);
    check(vec![delta("\n\nHello \n"), delta("  ")], ALL, &["Hello"]);
    check(vec![thought("hm"), delta("Yes")], ALL, &["~hm", "Yes"]);
    check(vec![thought("hm"), delta("Yes")], REPLY, &["Yes"]);
    check(vec![tool("get_time")], ALL, &["~· get_time …"]);
    check(
        vec![delta("Let me look."), tool("get_time"), stored(SECOND, MessageRole::Tool)],
        ALL,
        &["Let me look.", "~· get_time done, 0.1 s"],
    );
    check(
        vec![tool("a"), tool("b"), stored(SECOND, MessageRole::Tool), delta("x")],
        ALL,
        &["~· a done, 0.2 s", "~· b done, 0.1 s", "x"],
    );
    check(vec![delta("a\u{1b}[2Jb")], ALL, &["a␛[2Jb"]);
    check(vec![tool("x\u{1b}\ny")], ALL, &["~· x␛ y …"]);
    check(
        vec![Event::Status {
            turn: TURN,
            status: Status::Error { message: "cut off".to_owned(), retrying: true },
        }],
        ALL,
        &["~· cut off; trying again"],
    );
    check(vec![Event::Delta { turn: OTHER, kind: DeltaKind::Text, text: "x".into() }], ALL, &[]);
}

#[test]
fn the_end_is_what_the_server_says() {
    let check = |events: Vec<Event>, expected: &[&str], reply: &str| {
        let transcript = seen(events.clone());
        assert_eq!(shown(&transcript, ALL), expected, "{events:?}");
        assert_eq!(transcript.reply(), reply, "{events:?}");
    };
    let message = |id| stored(id, MessageRole::Assistant);
    check(
        vec![delta("Hello "), message(FIRST), complete(Some(FIRST), "Hello")],
        &["Hello"],
        "Hello",
    );
    // Never a delta: the reply stands in the last event alone.
    check(vec![complete(Some(FIRST), "Hello")], &["Hello"], "Hello");
    // The tail was missed.
    check(vec![delta("Hel"), complete(Some(FIRST), "Hello")], &["Hello"], "Hello");
    // What was seen is not what was stored.
    check(
        vec![delta("Hullo"), message(FIRST), complete(Some(FIRST), "Hello")],
        &["Hello"],
        "Hello",
    );
    // An earlier message of the turn stays, and only the last is compared.
    check(
        vec![
            delta("One."),
            message(FIRST),
            tool("t"),
            delta("Two."),
            message(SECOND),
            complete(Some(SECOND), "Two."),
        ],
        &["One.", "~· t …", "Two."],
        "Two.",
    );
    check(
        vec![delta("One."), message(FIRST), complete(Some(SECOND), "Two.")],
        &["One.", "Two."],
        "Two.",
    );
    // A server whose last word is the text of the whole turn.
    check(
        vec![delta("One."), message(FIRST), delta("Two."), complete(Some(SECOND), "One.\nTwo.")],
        &["One.", "Two."],
        "One.\nTwo.",
    );
    // What a crash left is a message of its own, before the reply.
    let resumed = Event::Resumed { turn: TURN, last: id(5, 1) };
    check(
        vec![
            delta("A king, "),
            resumed,
            delta("and a queen."),
            complete(Some(FIRST), "and a queen."),
        ],
        &["A king,", "~· interrupted; it goes on", "and a queen."],
        "A king, and a queen.",
    );
    // A provider's cut stream is asked for again without another worker.
    let status = Status::Error { message: "cut".to_owned(), retrying: true };
    check(
        vec![
            delta("A king, "),
            Event::Status { turn: TURN, status },
            delta("and a queen."),
            complete(Some(FIRST), "and a queen."),
        ],
        &["A king,", "~· cut; trying again", "and a queen."],
        "A king, and a queen.",
    );
    // The text before a tool call is another message, even where none was announced.
    check(
        vec![delta("One."), tool("t"), complete(Some(SECOND), "Two.")],
        &["One.", "~· t …", "Two."],
        "Two.",
    );
    // No text at all keeps what was seen.
    check(vec![delta("Half"), complete(None, "")], &["Half"], "Half");
}

#[test]
fn resumed_drops_what_lies_beyond_the_named_event() {
    let check = |last: EventId, expected: &[&str]| {
        let mut transcript = seen(vec![delta("one "), delta("two "), tool("t"), delta("three")]);
        let resumed = Event::Resumed { turn: TURN, last };
        assert_eq!(transcript.apply(&at(id(6, 1), resumed)), Change::Shown);
        transcript.apply(&at(id(6, 2), delta("again")));
        assert_eq!(shown(&transcript, ALL), expected, "{last}");
    };
    let cut = "~· interrupted; it goes on";
    check(id(5, 4), &["one two", "~· t …", "three", cut, "again"]);
    check(id(5, 3), &["one two", "~· t …", "again"]);
    check(id(5, 2), &["one two", cut, "again"]);
    check(id(5, 1), &["one", cut, "again"]);
    check(EventId::START, &["again"]);
}

#[test]
fn an_event_counts_once_and_a_fenced_worker_not_at_all() {
    let mut transcript = seen(vec![delta("a"), delta("b")]);
    assert_eq!(transcript.apply(&at(id(5, 2), delta("b"))), Change::Nothing);
    transcript.apply(&at(id(6, 1), Event::Resumed { turn: TURN, last: id(5, 2) }));
    assert_eq!(transcript.apply(&at(id(5, 3), delta("late"))), Change::Nothing);
    assert_eq!(transcript.texts(), ["ab"]);
    assert_eq!(transcript.position(), id(6, 1));
}

#[test]
fn a_reset_starts_over() {
    let mut transcript = seen(vec![delta("stale")]);
    transcript.reset();
    assert_eq!(transcript.position(), EventId::START);
    transcript.apply(&at(id(5, 1), delta("fresh")));
    assert_eq!(transcript.texts(), ["fresh"]);
}

#[test]
fn a_question_is_passed_on() {
    let approval = ApprovalId(Uuid::from_u128(3));
    let status = Status::WaitingForInput {
        approval,
        code: "ABCD2345".to_owned(),
        summary: make_visible("delete \u{200b}it"),
    };
    let mut transcript = Transcript::new(TURN, EventId::START);
    let change = transcript.apply(&at(id(1, 1), Event::Status { turn: TURN, status }));
    let summary = "delete ⟨U+200B⟩it".to_owned();
    assert_eq!(change, Change::Asked(Question { approval, code: "ABCD2345".into(), summary }));
    assert!(shown(&transcript, ALL).is_empty(), "who follows the turn shows it, once");
}

#[test]
fn notes_only_grow() {
    let events = vec![
        thought("hm\nwell"),
        tool("a"),
        stored(FIRST, MessageRole::Tool),
        delta("x"),
        tool("b"),
    ];
    let all = ["hm", "well", "· a …", "· a done, 0.1 s", "· b …"];
    assert_eq!(seen(events.clone()).notes(ALL), all);
    assert_eq!(seen(events.clone()).notes(View { notes: true, reasoning: false }), all[2..]);
    for count in 0..events.len() {
        let notes = seen(events[..count].to_vec()).notes(ALL);
        assert_eq!(notes, all[..notes.len()]);
    }
}

/// What a chain of workers does to one turn: each writes, and all but the last die.
#[derive(Clone, Debug)]
struct Run {
    deltas: Vec<String>,
    /// How many of the deltas were stored before the worker died.
    kept: prop::sample::Index,
}

fn run() -> impl Strategy<Value = Run> {
    (prop::collection::vec("[a-z ]{0,5}", 0..8), any::<prop::sample::Index>())
        .prop_map(|(deltas, kept)| Run { deltas, kept })
}

/// All that was ever published, in order, each with whether it was stored; and the transcript.
fn history(runs: &[Run]) -> (Vec<(Envelope, bool)>, String) {
    let mut published = Vec::new();
    let mut transcript = String::new();
    for (index, run) in runs.iter().enumerate() {
        let fence = index as i64 + 1;
        let survives = index + 1 == runs.len();
        let kept = if survives { run.deltas.len() } else { run.kept.index(run.deltas.len() + 1) };
        let mut number = 0;
        let mut publish = |event: Event, stored: bool| {
            number += 1;
            published.push((at(id(fence, number), event), stored));
        };
        if index > 0 {
            // Stored before anything else of this worker, or not at all.
            let before = last_stored(runs, index);
            publish(Event::Resumed { turn: TURN, last: before }, true);
        }
        for (position, text) in run.deltas.iter().enumerate() {
            publish(delta(text), position < kept);
            if position < kept {
                transcript.push_str(text);
            }
        }
        if survives {
            publish(complete(None, ""), true);
        }
    }
    (published, transcript)
}

/// The last event that was stored before the worker `index` took over.
fn last_stored(runs: &[Run], index: usize) -> EventId {
    let before = &runs[index - 1];
    let kept = before.kept.index(before.deltas.len() + 1) as i64;
    let first = i64::from(index > 1);
    if kept + first == 0 { EventId::START } else { id(index as i64, kept + first) }
}

proptest! {
    /// However the stream is cut, and whichever worker dies, the viewer ends with the transcript.
    #[test]
    fn any_cut_and_any_crash_give_the_transcript(
        runs in prop::collection::vec(run(), 1..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        attach in any::<prop::sample::Index>(),
        again in 0usize..3,
    ) {
        let (published, expected) = history(&runs);
        let total = published.len();
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(total)).collect();
        let mut viewer = Transcript::new(TURN, EventId::START);
        let replay = |viewer: &mut Transcript, now: usize| {
            // The log of what was stored, and what the living worker has in memory. Some of it was
            // seen before.
            let living = published[now].0.id.fence;
            let from = viewer.position();
            let known: Vec<&Envelope> = published[..now]
                .iter()
                .filter(|(envelope, stored)| *stored || envelope.id.fence == living)
                .map(|(envelope, _)| envelope)
                .collect();
            let first = known.iter().position(|e| e.id > from).unwrap_or(known.len());
            for envelope in &known[first.saturating_sub(again)..] {
                viewer.apply(envelope);
            }
        };
        let start = attach.index(total);
        replay(&mut viewer, start);
        let mut away = 0usize;
        for (now, (envelope, _)) in published.iter().enumerate().skip(start) {
            if cuts.contains(&now) {
                // Gone for as long as the number of this cut says.
                away = now % 3 + 1;
            }
            if away > 0 {
                away -= 1;
                if away > 0 && now + 1 < total {
                    continue;
                }
                replay(&mut viewer, now);
            }
            viewer.apply(envelope);
        }
        prop_assert_eq!(viewer.texts().concat(), expected);
        prop_assert!(viewer.end().is_some());
    }
}
