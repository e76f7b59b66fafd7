//! Keys of plugins that are set where people write: by whom, and what becomes of the message.

use crate::desk::{Bench, known, written};
use crate::managed::Set;
use famulus_core::{
    StoreError,
    ids::AgentId,
    inbound::{Chat, ChatKind, Source},
    intake::{RemoteFile, Written},
    pairing::Access,
    person::{Caller, Role, Scope},
    sent::{Entry, Sent},
};
use famulus_reception::{Arrived, File, Outcome, Received};
use serde_json::json;
use std::slice::from_ref;

const SECRET: &str = "s3cret-canary";

fn assigns() -> String {
    format!("/configure weather api_key {SECRET}")
}

fn file() -> RemoteFile {
    RemoteFile {
        handle: "a".into(),
        name: "a.pdf".into(),
        media_type: "application/pdf".into(),
        size: None,
    }
}

/// What somebody is told, and whether a key was set. Nothing is kept, and the value is told nobody.
async fn said(bench: &Bench, written: &Written) -> String {
    if !bench.hear(written).await.unwrap() {
        assert_eq!(bench.arrive(from_ref(written)).await, Arrived::Answered);
    }
    assert_eq!(bench.desk.accepted.lock().len(), 0, "nothing of it is a message");
    let told = bench.desk.told.lock();
    assert!(!format!("{told:?}").contains(SECRET), "{told:?}");
    told.last().unwrap().words.clone()
}

#[tokio::test]
async fn the_owner_sets_a_key_and_the_message_is_deleted() {
    let bench = Bench::new(Access::Pairing, &[]);
    *bench.desk.deletes.lock() = true;
    let message = written("owner", &assigns());
    assert!(bench.hear(&message).await.unwrap(), "nothing is left to be stored");
    let told = bench.desk.told.lock()[0].words.clone();
    assert_eq!(told, "`api_key` of `weather` is set. I deleted your message.");
    let set = Set {
        plugin: "weather".into(),
        key: "api_key".into(),
        value: json!(SECRET),
        who: "owner".into(),
    };
    assert_eq!(*bench.managed.set.lock(), [set]);
    assert_eq!(*bench.desk.deleted.lock(), ["chat of owner/1"]);
    // It was heard again: the process had died before the platform knew that it was heard.
    assert!(bench.hear(&message).await.unwrap());
    assert_eq!(bench.managed.set.lock().len(), 1);
    assert_eq!(bench.desk.told.lock().len(), 1);
    assert_eq!(bench.desk.accepted.lock().len(), 0);
}

#[tokio::test]
async fn where_a_message_cannot_be_deleted_its_writer_is_told_so() {
    let bench = Bench::new(Access::Pairing, &[]);
    let told = said(&bench, &written("owner", &assigns())).await;
    assert!(told.starts_with("`api_key` of `weather` is set. I cannot delete"), "{told}");
    assert!(told.contains("delete it yourself"), "{told}");
}

#[tokio::test]
async fn what_is_no_assignment_sets_nothing_and_says_why() {
    let check = async |text: &str, why: &str| {
        let bench = Bench::new(Access::Pairing, &[]);
        *bench.desk.deletes.lock() = true;
        let told = said(&bench, &written("owner", text)).await;
        assert!(told.contains(why), "{text}: {told}");
        assert!(told.ends_with("I deleted your message."), "{text}: {told}");
        assert_eq!(*bench.managed.set.lock(), [], "{text}");
    };
    let usage = "/configure PLUGIN KEY VALUE";
    check("/configure", usage).await;
    check(&format!("/configure weather {SECRET}"), usage).await;
    check(&format!("/configure@bot {SECRET}"), usage).await;
    check(&format!("/configure other api_key {SECRET}"), "there is no plugin `other`").await;
    check(&format!("/configure weather other {SECRET}"), "has no such key").await;
    check(&format!("/configure weather port {SECRET}"), "the value was refused").await;
}

#[tokio::test]
async fn with_files_it_is_no_assignment_and_no_message() {
    let bench = Bench::new(Access::Pairing, &[]);
    let message = Written { files: vec![file()], ..written("owner", &assigns()) };
    let told = said(&bench, &message).await;
    assert!(told.contains("without files"), "{told}");
    assert_eq!(*bench.managed.set.lock(), []);
    assert_eq!(bench.desk.files.lock().len(), 0, "nothing is fetched");
}

#[tokio::test]
async fn nobody_but_the_owner_where_the_owner_may_act_sets_a_key() {
    let check = async |from: &str, acts: bool| {
        let mut bench = Bench::new(Access::Pairing, &[]);
        bench.door.owner_acts = acts;
        *bench.desk.deletes.lock() = true;
        for text in [assigns(), "/configure".to_owned()] {
            let told = said(&bench, &written(from, &text)).await;
            assert_eq!(told, "Only the owner sets keys of plugins.", "{from} {acts} {text}");
        }
        assert_eq!(*bench.managed.set.lock(), [], "{from} {acts}");
        assert_eq!(bench.desk.deleted.lock().len(), 0, "{from} {acts}");
    };
    check("member", true).await;
    check("contact", true).await;
    check("owner", false).await;
}

#[tokio::test]
async fn who_is_nobody_and_what_is_nobodys_word_is_left_to_be_stored_without_the_value() {
    let bench = Bench::new(Access::Pairing, &[]);
    let own = written("owner", &assigns());
    let group = Chat { id: own.chat.id.clone(), kind: ChatKind::Group };
    for message in [
        written("stranger", &assigns()),
        written("gone owner", &assigns()),
        Written { forwarded: Some("Eve".into()), ..own.clone() },
        Written { edits: Some(own.key.clone()), key: "2".into(), ..own.clone() },
        Written { chat: group, ..own.clone() },
        written("owner", "what does /configure do?"),
    ] {
        assert!(!bench.hear(&message).await.unwrap(), "{message:?}");
    }
    assert_eq!(*bench.managed.set.lock(), []);
    assert_eq!(bench.desk.told.lock().len(), 0);
    // What it was changed into is let be.
    let edit = Written { edits: Some(own.key.clone()), key: "2".into(), ..own };
    assert_eq!(bench.arrive(&[edit]).await, Arrived::Ignored);
}

#[tokio::test]
async fn while_the_database_is_away_it_waits_and_what_it_refuses_it_refuses_once() {
    let bench = Bench::new(Access::Pairing, &[]);
    let message = written("owner", &assigns());
    *bench.managed.fails.lock() = Some(StoreError::Unavailable("it is away".into()));
    assert!(matches!(bench.hear(&message).await, Err(StoreError::Unavailable(_))));
    assert_eq!(bench.desk.told.lock().len(), 0, "nobody is told what is not so");
    assert!(bench.hear(&message).await.unwrap());
    assert_eq!(bench.managed.set.lock().len(), 1);
    *bench.managed.fails.lock() = Some(StoreError::Refused("it will not".into()));
    let another = Written { key: "2".into(), ..message };
    let told = said(&bench, &another).await;
    assert!(told.contains("the database refused it"), "{told}");
}

/// Over HTTP, and at a terminal.
#[tokio::test]
async fn a_caller_is_answered_and_nothing_is_kept() {
    let bench = Bench::new(Access::Pairing, &[]);
    let send = async |role: Role, scope: Scope, text: &str, files: Vec<File<'_>>| {
        let person = known("Ada", role, false).person;
        let entry = Entry { reply: written("owner", "").reply, kind: ChatKind::Direct };
        let sent = Sent {
            text: text.to_owned(),
            attachments: Vec::new(),
            sender: None,
            source: Source::Http,
            conversation: None,
            agent: AgentId::new(),
            key: Some("key".into()),
            meeting: famulus_core::inbound::Meeting::Steer,
            continues: None,
        };
        let caller = Caller { person, token: None, scope };
        let received = bench.arrivals.reception.receive(&caller, entry, sent, files).await;
        let Received::Obeyed { outcome, .. } = received.unwrap() else {
            panic!("it was kept: {text}")
        };
        outcome
    };
    let done = Outcome::Configured { plugin: "weather".into(), key: "api_key".into() };
    let set = async |role, scope| send(role, scope, &assigns(), Vec::new()).await;
    assert_eq!(set(Role::Owner, Scope::Owner).await, done);
    assert_eq!(done.to_string(), "`api_key` of `weather` is set.");
    for (role, scope) in [(Role::Owner, Scope::Chat), (Role::Member, Scope::Chat)] {
        assert_eq!(set(role, scope).await, Outcome::NotTheOwners);
    }
    let stored = File::Stored { id: famulus_core::ids::BlobId::new(), name: "a".into() };
    let outcome = send(Role::Owner, Scope::Owner, &assigns(), vec![stored]).await;
    assert_eq!(outcome, Outcome::Malformed);
    assert_eq!(bench.managed.set.lock().len(), 1);
    assert_eq!(bench.desk.accepted.lock().len(), 0);
}
