//! Questions where people chat, and replies that grow there.

use super::{TOKEN, let_in};
use crate::{
    approvals::Bell,
    world::{self, Do, Puppet, Setup, Text as _, call, say},
};
use famulus_core::model::Model;
use famulus_scripted_telegram::{Message, Telegram, User};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const LOOK: Duration = Duration::from_millis(20);

/// Rings for whoever is named last in a message, and then says what came of it.
fn bell_ringer() -> Arc<dyn Model> {
    Puppet::new(|_, request| {
        let heard = request.last();
        if request.has_results() {
            return vec![say(format!("So: {heard}"))];
        }
        match heard.rsplit_once("ring ") {
            Some((_, whose)) => vec![call("bell", &json!({ "whose": whose }))],
            None => vec![say("Yes?")],
        }
    })
}

fn setup(telegram: &Telegram, model: Arc<dyn Model>) -> Setup {
    Setup::new(model).set(|config| {
        config.channels.telegram.token = Some(TOKEN.to_owned().into());
        config.channels.telegram.base_url = Some(telegram.base_url().parse().unwrap());
    })
}

async fn question(telegram: &Telegram, chat: i64) -> Message {
    telegram.wait_for(chat, |one| !one.buttons.is_empty()).await
}

/// The message as it stands when it is closed.
async fn closed(telegram: &Telegram, question: &Message) -> Message {
    telegram.wait_for(question.chat, |one| one.id == question.id && one.buttons.is_empty()).await
}

fn data(message: &Message, button: &str) -> String {
    let all = message.buttons.iter().flatten();
    all.clone().find(|(text, _)| text == button).map(|(_, data)| data.clone()).unwrap()
}

#[tokio::test]
async fn a_question_is_answered_by_a_button_of_whoever_is_asked() {
    let (telegram, bell) = (Telegram::start(TOKEN).await.unwrap(), Arc::new(Bell::default()));
    let setup = setup(&telegram, bell_ringer()).tool(bell.clone());
    world::run(setup, async |world| {
        let (ada, bob, eve) = (User::new(7, "Ada"), User::new(8, "Bob"), User::new(9, "Eve"));
        let_in(world, &telegram, &ada, true).await;
        let_in(world, &telegram, &bob, false).await;
        // The owner is asked where the owner wrote.
        telegram.write(&ada, &ada.chat(), "ring Carl");
        let asked = question(&telegram, 7).await;
        assert!(asked.text.contains("ring Carl's bell"), "{asked:?}");
        assert!(asked.text.contains("/approve "), "a press may be lost: {asked:?}");
        // Whoever is not asked presses in vain, whatever they send.
        telegram.press(&eve, &asked, &data(&asked, "Approve"));
        telegram.press(&bob, &asked, &data(&asked, "Approve"));
        telegram.press(&ada, &asked, "/approve AAAAAAAA");
        telegram.press(&ada, &asked, "nonsense");
        let answered = async {
            while telegram.answered().len() < 4 {
                sleep(LOOK).await;
            }
        };
        world::soon("presses are answered", answered).await;
        assert_eq!(bell.rung(), Vec::<String>::new());
        telegram.press(&ada, &asked, &data(&asked, "Approve"));
        telegram.wait_for(7, |one| one.text.contains("it rang")).await;
        assert_eq!(bell.rung(), ["Carl"]);
        let closed = closed(&telegram, &asked).await;
        assert!(
            closed.text.contains("Approved by") && closed.text.contains("(telegram)"),
            "{closed:?}"
        );
        // A press of what is closed does nothing more.
        telegram.press(&ada, &asked, &data(&asked, "Approve"));
        let late = async {
            while telegram.answered().len() < 6 {
                sleep(LOOK).await;
            }
        };
        world::soon("a late press is answered", late).await;
        assert_eq!(bell.rung(), ["Carl"]);
    })
    .await;
}

#[tokio::test]
async fn the_owner_is_asked_at_home_for_a_member_and_it_closes_wherever_it_is_answered() {
    let (telegram, bell) = (Telegram::start(TOKEN).await.unwrap(), Arc::new(Bell::default()));
    let setup = setup(&telegram, bell_ringer()).tool(bell.clone());
    world::run(setup, async |world| {
        let (ada, bob) = (User::new(7, "Ada"), User::new(8, "Bob"));
        let_in(world, &telegram, &ada, true).await;
        let_in(world, &telegram, &bob, false).await;
        telegram.write(&bob, &bob.chat(), "ring Carl");
        let asked = question(&telegram, 7).await;
        assert!(asked.text.contains("for Bob"), "{asked:?}");
        assert!(telegram.sent_to(8).iter().all(|one| one.buttons.is_empty()), "Bob is not asked");
        let open = world.owner.get("/v1/approvals?state=pending").await.ok();
        let id = open["approvals"][0]["id"].as_str().unwrap().to_owned();
        let denied = json!({ "decision": "deny" });
        world.owner.post(&format!("/v1/approvals/{id}"), denied).await.ok();
        let closed = closed(&telegram, &asked).await;
        assert!(closed.text.starts_with("Denied by"), "{closed:?}");
        telegram.wait_for(8, |one| one.text.starts_with("So:")).await;
        assert_eq!(bell.rung(), Vec::<String>::new());

        // A chat that lets nothing through is not home.
        telegram.block(&ada, true);
        sleep(Duration::from_millis(500)).await;
        telegram.write(&bob, &bob.chat(), "ring Dora");
        let waits = async {
            while world.owner.get("/v1/approvals?state=pending").await.ok()["approvals"]
                .as_array()
                .is_none_or(Vec::is_empty)
            {
                sleep(LOOK).await;
            }
        };
        world::soon("the question is open", waits).await;
        let before = telegram.sent_to(7).len();
        telegram.write(&ada, &ada.chat(), "I am back");
        let asked = telegram.wait_for(7, |one| one.text.contains("ring Dora's bell")).await;
        assert!(telegram.sent_to(7).len() > before);
        telegram.press(&ada, &asked, &data(&asked, "Deny"));
        telegram.wait_for(8, |one| one.text.contains("So:") && one.id > 5).await;
    })
    .await;
}

#[tokio::test]
async fn whoever_closes_the_chat_where_they_were_asked_is_asked_in_another() {
    let (telegram, bell) = (Telegram::start(TOKEN).await.unwrap(), Arc::new(Bell::default()));
    let setup = setup(&telegram, bell_ringer()).tool(bell.clone());
    world::run(setup, async |world| {
        let (other, phone) = (User::new(6, "Ada"), User::new(7, "Ada"));
        let_in(world, &telegram, &other, true).await;
        let_in(world, &telegram, &phone, true).await;
        telegram.write(&phone, &phone.chat(), "ring Carl");
        question(&telegram, 7).await;
        telegram.block(&phone, true);
        let asked = question(&telegram, 6).await;
        assert!(asked.text.contains("ring Carl's bell"), "{asked:?}");
        telegram.press(&other, &asked, &data(&asked, "Approve"));
        closed(&telegram, &asked).await;
        let rung = async {
            while bell.rung().is_empty() {
                sleep(LOOK).await;
            }
        };
        world::soon("the bell rings", rung).await;
        assert_eq!(bell.rung(), ["Carl"]);
        let asked = telegram.sent().into_iter().filter(|one| one.text.contains("/approve "));
        assert_eq!(asked.count(), 1, "once in each chat, and one of them is closed");
    })
    .await;
}

#[tokio::test]
async fn a_reply_grows_while_it_is_written_and_stands_there_once() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    let gate = CancellationToken::new();
    let held = gate.clone();
    let model =
        Puppet::new(move |_, _| vec![say("**One** "), Do::Hold(held.clone()), say("two three.")]);
    world::run(setup(&telegram, model), async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &telegram, &ada, true).await;
        telegram.write(&ada, &ada.chat(), "count");
        let grows = async {
            while !telegram.drafts().iter().any(|(chat, text)| *chat == 7 && text.trim() == "One") {
                sleep(LOOK).await;
            }
        };
        world::soon("the reply grows", grows).await;
        assert_eq!(telegram.sent_to(7).len(), 1, "only the code was sent");
        gate.cancel();
        let reply = telegram.wait_for(7, |one| one.text.contains("three")).await;
        assert_eq!(reply.text, "One two three.");
        assert_eq!(reply.entities[0].kind, "bold");
        let drafts = telegram.drafts().len();
        sleep(Duration::from_secs(2)).await;
        assert_eq!(telegram.drafts().len(), drafts, "nothing is shown behind the reply");
        assert_eq!(telegram.sent_to(7).len(), 2);
    })
    .await;
}
