//! Who is known, and how they become so.

use super::{TOKEN, code, let_in, setup};
use crate::world::{self, World};
use famulus_core::{ids::PersonId, pairing::PENDING, person::Role};
use famulus_scripted_telegram::{Telegram, User};
use famulus_store::{Becomes, Paired, Retention};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

async fn pair(world: &World, code: &str, becomes: &Becomes) -> Paired {
    let store = world.app(|app| app.store.clone());
    store.pair(code, becomes).await.unwrap()
}

#[tokio::test]
async fn a_stranger_is_paired_and_talks() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let ada = User::new(7, "Ada");
        let code = code(&telegram, &ada).await;
        // More of the same is met with silence.
        telegram.write(&ada, &ada.chat(), "Remember that my cat is called Miso");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(telegram.sent_to(7).len(), 1);
        let member = Becomes::Newcomer { role: Role::Member, name: None };
        let paired = pair(world, &code.to_lowercase(), &member).await;
        let Paired::Done { person, .. } = paired else { panic!("{paired:?}") };
        assert_eq!((person.name.as_str(), person.role), ("Ada", Role::Member));
        assert_eq!(pair(world, &code, &member).await, Paired::NoCode, "a code is good once");
        telegram.write(&ada, &ada.chat(), "Remember that my cat is called Miso");
        telegram.wait_for(7, |one| one.text.contains("Miso")).await;
        telegram.write(&ada, &ada.chat(), "What is my cat called?");
        let begun = Instant::now();
        let about_miso =
            || telegram.sent_to(7).iter().filter(|one| one.text.contains("Miso")).count();
        while about_miso() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", telegram.sent_to(7));
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// The link is for one person, once, and the latest alone is good.
#[tokio::test]
async fn the_owners_own_account_becomes_known_by_a_link() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let invite = async |body: Value| {
            let begun = Instant::now();
            // Until the bot was asked what it is called.
            loop {
                let answer = world.owner.post("/v1/invitations", body.clone()).await;
                if answer.status != 409 || begun.elapsed() > Duration::from_secs(10) {
                    return answer;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let secret = async |body: Value| {
            let made = invite(body).await.ok();
            let link = made["link"].as_str().unwrap();
            link.strip_prefix("https://t.me/famulus_bot?start=").unwrap().to_owned()
        };
        let older = secret(json!({"channel": "telegram"})).await;
        let newer = secret(json!({"channel": "telegram"})).await;
        assert!(older != newer && newer.len() == 22, "{newer}");
        let [phone, thief, tablet] = [7, 8, 9].map(|id| User::new(id, "Somebody"));
        let start = |user: &User, secret: &str| {
            telegram.write(user, &user.chat(), &format!("/start {secret}"))
        };
        start(&thief, &older);
        telegram.wait_for(8, |one| one.text.contains("I do not know you")).await;
        start(&phone, &newer);
        telegram.wait_for(7, |one| one.text.starts_with("Hello")).await;
        telegram.write(&phone, &phone.chat(), "/help");
        telegram.wait_for(7, |one| one.text.contains("/approve CODE: Say yes")).await;
        telegram.write(&phone, &phone.chat(), "Remember that my ship is called Argo");
        telegram.wait_for(7, |one| one.text.contains("Argo")).await;
        let known = world.owner.get("/v1/knowledge").await.ok();
        assert!(known.to_string().contains("my ship is called Argo"), "it is the owner's: {known}");
        // What was used is good for nobody else.
        start(&tablet, &newer);
        telegram.wait_for(9, |one| one.text.contains("I do not know you")).await;

        invite(json!({"channel": "telegram", "person": PersonId::new()})).await.refused(404);
        invite(json!({"channel": "pigeon"})).await.refused(404);
        let channels = world.owner.get("/v1/channels").await.ok();
        assert_eq!(channels["channels"][0]["name"], "@famulus_bot");
    })
    .await;
}

/// And not only where they wrote last.
#[tokio::test]
async fn somebody_is_at_home_where_they_say_so() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let (phone, tablet) = (User::new(7, "Ada"), User::new(8, "Ada"));
        for user in [&phone, &tablet] {
            let_in(world, &telegram, user, true).await;
        }
        telegram.write(&phone, &phone.chat(), "/home");
        telegram.wait_for(7, |one| one.text.contains("comes here from now on")).await;
        telegram.write(&tablet, &tablet.chat(), "What time is it?");
        telegram.wait_for(8, |one| one.text.starts_with("It is")).await;
        world.owner.say("Remember that my cat is called Miso").await;
        world.owner.send("main", "Forget my cat").await;
        let question = telegram.wait_for(7, |one| one.text.starts_with("May I")).await;
        assert_eq!(question.buttons.len(), 1, "{question:?}");
    })
    .await;
}

#[tokio::test]
async fn the_owner_sees_who_waits_and_lets_them_in() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let (owner, ada) = (&world.owner, User::new(7, "Ada"));
        let code = code(&telegram, &ada).await;
        let waiting = owner.get("/v1/pairings").await.ok();
        assert_eq!(waiting["pairings"][0]["external_id"], "7", "{waiting}");
        assert_eq!(waiting["pairings"][0]["name"], "Ada");
        assert!(!waiting.to_string().contains(&code), "a code is told to the stranger alone");
        let let_in = |body: Value| owner.post("/v1/pairings", body);
        let guess = if code == "AAAAAAAA" { "BBBBBBBB" } else { "AAAAAAAA" };
        let no_code = let_in(json!({ "code": guess })).await.refused(404);
        assert!(no_code.contains("this code, or its time is over"), "{no_code}");
        let nobody = json!({ "code": code, "becomes": { "person": PersonId::new() } });
        assert!(let_in(nobody).await.refused(404).contains("this person"));
        let both = json!({ "person": PersonId::new(), "role": "contact" });
        let_in(json!({ "code": code, "becomes": both })).await.refused(400);
        let bob = owner.member("Bob").await;
        assert_eq!(bob.get("/v1/pairings").await.status, 403);
        assert_eq!(bob.post("/v1/pairings", json!({ "code": code })).await.status, 403);

        let known =
            let_in(json!({ "code": code, "becomes": { "role": "contact", "name": "Aunt Ada" } }))
                .await
                .ok();
        assert_eq!(known["person"]["name"], "Aunt Ada", "{known}");
        assert_eq!(
            (&known["person"]["role"], &known["channel"]),
            (&json!("contact"), &json!("telegram"))
        );
        let used = let_in(json!({ "code": code })).await.refused(404);
        assert!(used.contains("this code"), "{used}");
        assert_eq!(owner.get("/v1/pairings").await.ok()["pairings"], json!([]));
    })
    .await;
}

/// Rows, bytes and answers are bounded, however many there are and however much they write.
#[tokio::test]
async fn a_flood_of_strangers_costs_little() {
    const STRANGERS: i64 = 60;
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let long = "let me in ".repeat(400);
        for round in 0..3 {
            for id in 1..=STRANGERS {
                let stranger = User::new(id, "Somebody");
                telegram.write(&stranger, &stranger.chat(), &format!("{round} {long}"));
            }
        }
        let work = "select count(*) from queue_job where not dead";
        let read = async {
            while telegram.unconfirmed() > 0 || world.database.count(work).await > 0 {
                sleep(Duration::from_millis(100)).await;
            }
        };
        world::soon("all of it is read", read).await;
        assert_eq!(telegram.sent().len() as i64, PENDING, "the others hear nothing");
        let count = async |query| world.database.count(query).await;
        assert_eq!(count("select count(*) from pairing").await, PENDING);
        assert_eq!(count("select count(*) from outbox").await, PENDING);
        for empty in [
            "select count(*) from arrival",
            "select count(*) from message",
            "select count(*) from blob",
            "select count(*) from identity where channel = 'telegram'",
        ] {
            assert_eq!(count(empty).await, 0, "{empty}");
        }
        // What is left of each is its place in the queue, which goes after a day.
        let lanes = "select count(*) from queue_lane where class in ('arrival', 'delivery')";
        assert_eq!(count(lanes).await, STRANGERS + PENDING);
        let store = world.app(|app| app.store.clone());
        let later = store.queue.now().await.unwrap() + SignedDuration::from_hours(48);
        store.sweep_old(later, &Retention::default()).await.unwrap();
        assert_eq!(count(lanes).await, 0);
    })
    .await;
}
