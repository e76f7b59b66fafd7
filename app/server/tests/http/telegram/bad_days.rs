//! Platforms that fail, connections that break, processes that change hands.

use super::{TOKEN, let_in, setup};
use crate::world::{self, Setup, World};
use famulus_core::{inbound::Address, pairing::Tell as _};
use famulus_scripted_telegram::{Fault, Telegram, User};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// As in the middle of an update: one process has the channel already, the other one not yet.
#[tokio::test]
async fn a_process_without_the_channel_leaves_it_to_one_that_has_it() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    let without = Setup::configured(famulus_models::Config::default());
    world::run(without, async |world| {
        let ada = User::new(7, "Ada");
        telegram.write(&ada, &ada.chat(), "let me in");
        let to = Address {
            channel: "telegram".to_owned(),
            account: telegram.bot().to_string(),
            chat: ada.id.to_string(),
            thread: None,
            reply_to: None,
        };
        let store = world.app(|app| app.store.clone());
        store.tell("early", &to, None, "Good morning.").await.unwrap();
        sleep(Duration::from_millis(500)).await;
        world.another(setup(&telegram)).await;
        world.end_first().await;
        telegram.wait_for(7, |one| one.text.contains("Good morning.")).await;
        telegram.wait_for(7, |one| one.text.contains("people pair")).await;
    })
    .await;
}

#[tokio::test]
async fn a_channel_that_fails_is_down_because_and_comes_back() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    telegram.set_webhook(Some("https://elsewhere.example"));
    world::run(setup(&telegram), async |world| {
        let standing = async || world.owner.get("/v1/channels").await.ok()["channels"][0].clone();
        let down = async {
            while !standing().await["down"].as_str().unwrap_or_default().contains("deleteWebhook") {
                sleep(Duration::from_millis(20)).await;
            }
        };
        world::soon("the channel is down", down).await;
        let status = world.owner.get("/v1/status").await.ok();
        let checks = status["checks"].as_array().unwrap();
        let heard = checks.iter().find(|check| check["name"] == "channels").unwrap();
        assert_eq!(heard["ok"], false, "{heard}");
        let detail = heard["detail"].as_str().unwrap();
        assert!(detail.starts_with("telegram is down since 2"), "{detail}");
        assert!(detail.contains("because") && detail.contains("deleteWebhook"), "{detail}");
        assert!(!world.owner.say("Are you there?").await.is_empty(), "the rest goes on");
        telegram.set_webhook(None);
        // What somebody has to mend is looked at again each minute, and by whoever starts.
        let other = world.another(setup(&telegram)).await;
        let heard = async {
            while standing().await["listening"] != true || !standing().await["down"].is_null() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        world::soon("the channel is heard", heard).await;
        assert_eq!(other.get("/v1/channels").await.ok()["channels"][0]["account"], "99");
    })
    .await;
}

#[tokio::test]
async fn the_owner_is_told_of_a_reply_that_may_have_arrived() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    let ada = User::new(7, "Ada");
    world::run(setup(&telegram), async |world| {
        let_in(world, &telegram, &ada, false).await;
        telegram.fault("sendmessage", Fault::CutAfter);
        telegram.write(&ada, &ada.chat(), "Remember that my cat is called Miso");
        let told = async {
            loop {
                let messages = world.owner.messages("main").await;
                let about = |one: &&Value| one.to_string().contains("A reply to Ada on telegram");
                let told = messages.iter().filter(|one| one["role"] == "assistant").find(about);
                if let Some(told) = told {
                    break told.to_string();
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let told = world::soon("the owner is told", told).await;
        assert!(told.contains("may not have arrived") && told.contains("Miso"), "{told}");
        assert_eq!(telegram.sent_to(7).len(), 2, "the code, and the reply once");
        let unknown = world.owner.get("/v1/outbox?state=unknown").await.ok();
        let id = unknown["messages"][0]["id"].as_str().unwrap().to_owned();
        assert!(told.contains(&format!("famulus outbox retry {id}")), "{told}");
        // A person decides, and then it may be there twice.
        world.owner.post(&format!("/v1/outbox/{id}/retry"), json!({})).await.ok();
        let again = async {
            while telegram.sent_to(7).len() < 3 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        world::soon("it is sent again", again).await;
        let unknown = world.owner.get("/v1/outbox?state=unknown").await.ok();
        assert_eq!(unknown["messages"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn nothing_is_lost_or_doubled_on_bad_days_and_in_a_change_of_hands() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    let ada = User::new(7, "Ada");
    world::run(setup(&telegram), async |world| {
        let owner = world.app(|app| app.owner.id);
        let_in(world, &telegram, &ada, true).await;
        world.another(setup(&telegram)).await;
        let faults = [
            Fault::CutBefore,
            Fault::CutAfter,
            Fault::Malformed,
            Fault::Busy(1),
            Fault::Status(502),
        ];
        for number in 0..20 {
            if let Some(fault) = faults.get(number / 4).filter(|_| number % 4 == 1) {
                telegram.fault("getupdates", fault.clone());
            }
            telegram.write(&ada, &ada.chat(), &format!("Remember that number {number} is lucky"));
            if number == 9 {
                world.end_first().await;
            }
            sleep(Duration::from_millis(200)).await;
        }
        let begun = Instant::now();
        let remembered = async || {
            let store = world.app(|app| app.store.clone());
            let messages = store.messages(owner, conversation(world).await, None, 200);
            let all = messages.await.unwrap().items;
            (0..20)
                .map(|number| {
                    let text = format!("number {number} is lucky");
                    let mine = |one: &&famulus_store::MessageView| {
                        one.role == famulus_core::message::MessageRole::User
                            && one.text.contains(&text)
                    };
                    all.iter().filter(mine).count()
                })
                .collect::<Vec<_>>()
        };
        while remembered().await.contains(&0) {
            assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", remembered().await);
            sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(remembered().await, [1; 20]);
    })
    .await;
}

async fn conversation(world: &World) -> famulus_core::ids::ConversationId {
    let (store, owner) = world.app(|app| (app.store.clone(), app.owner.id));
    store.conversations(owner, None, 1).await.unwrap()[0].id
}
