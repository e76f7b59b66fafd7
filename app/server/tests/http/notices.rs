//! What the installation tells its owner by itself.

use crate::world::{Do, Puppet, Setup, run, say};
use famulus_core::{message::MessageRole, model::ModelRequest};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_is_told_once_whatever_the_model_does() {
    let puppet = Puppet::new(|_, _| vec![Do::Refuse]);
    run(Setup::new(puppet.clone()), async |world| {
        let notices = world.app(|app| app.notices.clone());
        for (key, words) in [
            ("today", "No backup was taken: the disk is full."),
            ("today", "No backup was taken: the disk is as full as before."),
            ("tomorrow", "No backup was taken: the disk is gone."),
        ] {
            notices.tell(key, words).await.unwrap();
        }
        let messages = world.owner.messages("main").await;
        let told: Vec<&str> = messages
            .iter()
            .filter(|message| message["role"] == "assistant")
            .map(|message| message["text"].as_str().unwrap())
            .collect();
        let words =
            ["No backup was taken: the disk is full.", "No backup was taken: the disk is gone."];
        assert_eq!(told, words);
        assert_eq!((puppet.times(), puppet.titles()), (0, 0), "nobody else is asked");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_while_the_conversation_is_at_work_is_passed_on_after_it() {
    let go_on = CancellationToken::new();
    let held = go_on.clone();
    let puppet = Puppet::new(move |number, _| match number {
        0 => vec![Do::Hold(held.clone()), say("Hello.")],
        _ => vec![say("The disk is full, I hear.")],
    });
    run(Setup::new(puppet.clone()), async |world| {
        let turn = world.owner.begin("main", "hello").await;
        puppet.asked(1).await;
        let notices = world.app(|app| app.notices.clone());
        notices.tell("today", "No backup was taken: the disk is full.").await.unwrap();
        go_on.cancel();
        world.owner.reaches(&turn, "complete").await;
        let asked = puppet.asked(2).await;
        let read = asked[1].messages.last().unwrap().text();
        assert!(read.contains("No backup was taken: the disk is full."), "{read}");
        assert!(read.contains("Sender: the installation"), "{read}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_owner_says_meanwhile_is_answered() {
    let repeat = |_, request: &ModelRequest| {
        let mut last = request.messages.rsplit(|message| message.role == MessageRole::Assistant);
        let heard = last.next().unwrap().iter().map(|message| message.text());
        vec![say(format!("I heard: {}", heard.collect::<Vec<_>>().join(" ")))]
    };
    run(Setup::new(Puppet::new(repeat)), async |world| {
        let notices = world.app(|app| app.notices.clone());
        for number in 0..40 {
            let key = format!("day {number}");
            let words = format!("On day {number} no backup was taken.");
            let greeting = format!("hello {number}.");
            let later = Duration::from_millis(number % 20);
            let (told, sent) = tokio::join!(notices.tell(&key, &words), async {
                tokio::time::sleep(later).await;
                world.owner.send("main", &greeting).await
            });
            told.unwrap();
            world.owner.reaches(sent["turn_id"].as_str().unwrap(), "complete").await;
        }
        let messages = world.owner.messages("main").await;
        let said: Vec<&str> = messages
            .iter()
            .filter(|message| message["role"] == "assistant")
            .map(|message| message["text"].as_str().unwrap())
            .collect();
        for number in 0..40 {
            let count = |words: String| said.iter().filter(|text| text.contains(&words)).count();
            assert_eq!(count(format!("hello {number}.")), 1, "{number}: {said:#?}");
            assert_eq!(count(format!("On day {number} no backup")), 1, "{number}: {said:#?}");
        }
    })
    .await;
}
