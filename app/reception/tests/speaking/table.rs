//! Every pair of a way of meeting strangers and somebody who writes, in a direct chat and a group, a
//! message and a command.

use crate::desk::{Bench, Told, known, written};
use famulus_core::{
    inbound::{ChatKind, IN_CHATS},
    message::Provenance,
    pairing::Access,
    person::{Role, Scope},
};
use famulus_reception::Arrived;
use std::slice::from_ref;

/// What is seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// A turn in this name.
    Turn(Provenance),
    /// An answer of the installation's, and no turn.
    Answer,
    Code,
    Silence,
    /// A word to the group, and nothing else.
    Farewell,
}

async fn seen(access: Access, listed: &[&str], from: &str, kind: ChatKind, text: &str) -> Seen {
    let bench = Bench::new(access, listed);
    let mut message = written(from, text);
    message.chat.kind = kind;
    let arrived = bench.arrive(from_ref(&message)).await;
    let (accepted, told) = (bench.desk.accepted.lock(), bench.desk.told.lock());
    let effects = (accepted.len(), told.len(), bench.desk.files.lock().len());
    match arrived {
        Arrived::Accepted(_) => {
            assert_eq!(effects, (1, 0, 0));
            Seen::Turn(accepted[0].provenance)
        }
        Arrived::Answered => {
            assert_eq!(effects, (0, 1, 0));
            Seen::Answer
        }
        Arrived::Coded => {
            assert_eq!(effects, (0, 1, 0));
            assert!(!told[0].words.contains(text), "nothing that they wrote: {told:?}");
            Seen::Code
        }
        Arrived::Ignored => {
            assert_eq!(effects, (0, 0, 0), "{from} {text}");
            Seen::Silence
        }
        Arrived::Group => {
            assert_eq!(effects, (0, 1, 0));
            Seen::Farewell
        }
        Arrived::Changed => panic!("{from} {text}: nothing was changed"),
    }
}

#[tokio::test]
async fn every_cell_has_its_outcome() {
    use Seen::{Answer, Code, Farewell, Silence, Turn};
    let both = [Access::Pairing, Access::Allowlist];
    let turns = [
        ("owner", Provenance::Owner),
        ("member", Provenance::Member),
        ("contact", Provenance::Contact),
    ];
    for access in both {
        for (from, provenance) in turns {
            let direct = async |text| seen(access, &[], from, ChatKind::Direct, text).await;
            assert_eq!(direct("hello").await, Turn(provenance), "{from}");
            assert_eq!(direct("/stop").await, Answer, "{from}");
            assert_eq!(direct("/start").await, Answer, "{from}");
            for (command, behind, _what) in IN_CHATS {
                let text = format!("/{command}{behind}");
                let found = seen(access, &[], from, ChatKind::Direct, &text).await;
                assert_eq!(found, Answer, "{from} {command}");
            }
            assert_eq!(direct("/unknown").await, Turn(provenance), "{from}");
        }
        for from in ["gone owner", "gone member"] {
            for text in ["hello", "/stop", "/approve GOODCODE", "/start"] {
                let found = seen(access, &["*"], from, ChatKind::Direct, text).await;
                assert_eq!(found, Silence, "{from} {text}");
            }
        }
        for from in ["owner", "member", "contact", "gone owner", "stranger"] {
            for text in ["hello", "/stop", "/approve GOODCODE"] {
                let found = seen(access, &["*"], from, ChatKind::Group, text).await;
                assert_eq!(found, Farewell, "{from} {text}");
            }
        }
        for text in ["hello", "/unknown"] {
            let listed = seen(access, &["other", "stranger"], "stranger", ChatKind::Direct, text);
            assert_eq!(listed.await, Turn(Provenance::Contact));
            let everybody = seen(access, &["*"], "stranger", ChatKind::Direct, text);
            assert_eq!(everybody.await, Turn(Provenance::Contact));
        }
    }
    for text in ["hello", "/stop", "/home", "/help", "/start", "/start owner", "/approve GOODCODE"]
    {
        let met = async |access| seen(access, &["other"], "stranger", ChatKind::Direct, text).await;
        assert_eq!(met(Access::Pairing).await, Code, "{text}");
        assert_eq!(met(Access::Allowlist).await, Silence, "{text}");
    }
}

#[tokio::test]
async fn a_stranger_is_told_once_and_then_there_is_silence() {
    let bench = Bench::new(Access::Pairing, &[]);
    let mut message = written("stranger", "let me in");
    // The second time somebody had died before it was told.
    for _ in 0..2 {
        assert_eq!(bench.arrive(from_ref(&message)).await, Arrived::Coded);
    }
    // Nor is it theirs when the owner lets them in before the end of it is settled.
    let stranger = known("stranger", Role::Member, false);
    bench.desk.people.lock().insert("stranger".into(), stranger);
    assert_eq!(bench.arrive(from_ref(&message)).await, Arrived::Coded);
    assert_eq!(bench.desk.accepted.lock().len(), 0);
    bench.desk.people.lock().remove("stranger");
    for number in 2..100 {
        message.key = format!("chat of stranger/{number}");
        let arrived = bench.arrive_with(from_ref(&message), [1 + number % 30; 8]).await;
        assert_eq!(arrived, Arrived::Ignored);
    }
    let told = bench.desk.told.lock();
    assert_eq!(told.len(), 1);
    let Told { chat, person, words, .. } = &told[0];
    assert_eq!((chat.as_str(), *person), ("chat of stranger", None));
    assert!(words.contains("**AAAAAAAA**") && words.contains("people pair AAAAAAAA"), "{words}");
}

/// However strangers are met; what is forged, passed on, changed into it or said twice invites nobody.
#[tokio::test]
async fn whoever_says_an_invitation_first_is_whom_it_is_for() {
    const SECRET: &str = "abcdefghijklmnopqrst-_";
    let start = |secret: &str| format!("/start {secret}");
    for (access, listed) in
        [(Access::Pairing, &[][..]), (Access::Allowlist, &[][..]), (Access::Pairing, &["*"][..])]
    {
        let bench = Bench::new(access, listed);
        bench.desk.invited.lock().insert(SECRET.to_owned(), "owner");
        let mut passed_on = written("friend", &start(SECRET));
        passed_on.forwarded = Some("the owner".to_owned());
        let mut changed = written("friend", &start(SECRET));
        changed.edits = Some("chat of friend/0".to_owned());
        let forged = [&SECRET[1..], &SECRET.to_uppercase(), "*", "' or true --"];
        let forged = forged.map(|secret| written("friend", &start(secret)));
        let within = written("friend", &format!("say {}", start(SECRET)));
        for one in forged.into_iter().chain([passed_on, changed, within]) {
            bench.arrive(&[one]).await;
        }
        assert_eq!(bench.desk.invited.lock().len(), 1, "nobody has used it");
        let owner = bench.person("owner");
        let whose = |id: &str| bench.desk.people.lock().get(id).map(|known| known.person.id);
        assert_ne!(whose("friend"), Some(owner));

        let mut message = written("phone", &start(SECRET));
        // The second time somebody had died before it was told.
        for _ in 0..2 {
            assert_eq!(bench.arrive(from_ref(&message)).await, Arrived::Answered);
        }
        assert_eq!(whose("phone"), Some(owner));
        let told = |person| {
            let told = bench.desk.told.lock();
            told.iter().filter(|one| one.person == Some(person)).count()
        };
        assert_eq!(told(owner), 1);
        message = written("thief", &start(SECRET));
        bench.arrive(&[message]).await;
        assert_ne!(whose("thief"), Some(owner));
    }
    let bench = Bench::new(Access::Pairing, &["*"]);
    bench.desk.invited.lock().insert(SECRET.to_owned(), "gone member");
    assert_eq!(bench.arrive(&[written("phone", &start(SECRET))]).await, Arrived::Ignored);
}

#[tokio::test]
async fn only_the_owners_own_account_acts_as_the_owner_and_only_where_it_may() {
    for (from, owner_acts, answer, decided) in [
        ("owner", true, "Approved: do it", Some(Scope::Owner)),
        ("owner", false, "This question is not yours to answer.", None),
        ("member", true, "This question is not yours to answer.", None),
        ("contact", true, "This question is not yours to answer.", None),
    ] {
        let mut bench = Bench::new(Access::Pairing, &[]);
        bench.door.owner_acts = owner_acts;
        assert_eq!(bench.arrive(&[written(from, "/approve goodcode")]).await, Arrived::Answered);
        assert_eq!(bench.desk.told.lock()[0].words, answer, "{from}");
        let scopes = bench.desk.decided.lock().first().map(|(_, scope, ..)| *scope);
        assert_eq!(scopes, decided, "{from}");
    }
}
