//! People who write to a bot of a scripted Telegram, from the first word to the reply.

use crate::world::{self, Setup, World};
use famulus_core::{ids::PersonId, inbound::Address, pairing::Tell as _, person::Role};
use famulus_scripted_telegram::{Fault, Kind, Message, Telegram, User};
use famulus_store::{Becomes, Paired};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

pub(crate) const TOKEN: &str = "99:the-bot's-secret";

fn setup(telegram: &Telegram) -> Setup {
    let demo = famulus_models::Config::default();
    Setup::configured(demo).set(|config| {
        config.channels.telegram.token = Some(TOKEN.to_owned().into());
        config.channels.telegram.base_url = Some(telegram.base_url().parse().unwrap());
    })
}

/// The code that a stranger was told.
pub(crate) async fn code(telegram: &Telegram, user: &User) -> String {
    telegram.write(user, &user.chat(), "let me in");
    let told = telegram.wait_for(user.id, |one| one.text.contains("people pair")).await;
    let bold = told.entities.iter().find(|entity| entity.kind == "bold").unwrap();
    told.text.chars().skip(bold.offset).take(bold.length).collect()
}

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

#[tokio::test]
async fn a_photo_comes_in_and_goes_back() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let ada = User::new(7, "Ada");
        let code = code(&telegram, &ada).await;
        world.owner.post("/v1/pairings", json!({ "code": code })).await.ok();
        let picture = vec![7; 3 * 1024];
        let handle = telegram.keep(picture.clone());
        let photo = json!({"caption": "Send it back", "photo": [
            {"file_id": handle, "file_unique_id": "u", "width": 8, "height": 8, "file_size": 3072}
        ]});
        telegram.send(&ada, &ada.chat(), photo);
        let is_file = |one: &Message| matches!(one.kind, Kind::File { .. });
        let back = telegram.wait_for(7, is_file).await;
        let Kind::File { field, bytes, .. } = &back.kind else { panic!("{back:?}") };
        assert_eq!((field.as_str(), bytes.to_vec()), ("photo", picture));
        telegram.wait_for(7, |one| one.text.starts_with("I have sent you")).await;
        // A document is one.
        let handle = telegram.keep("the report");
        let document = json!({"caption": "Send me the file", "document": {
            "file_id": handle, "file_unique_id": "v", "file_name": "report.txt",
            "mime_type": "text/plain", "file_size": 10}});
        telegram.send(&ada, &ada.chat(), document);
        let is_report =
            |one: &Message| matches!(&one.kind, Kind::File { name, .. } if name == "report.txt");
        let back = telegram.wait_for(7, is_report).await;
        let Kind::File { field, bytes, .. } = &back.kind else { panic!("{back:?}") };
        assert_eq!((field.as_str(), bytes.as_ref()), ("document", b"the report".as_slice()));
    })
    .await;
}

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

/// Its parts come one by one, and the words stand on one of them.
#[tokio::test]
async fn an_album_is_one_message() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let me = world.owner.get("/v1/me").await.ok()["person"]["id"].clone();
        let ada = User::new(7, "Ada");
        let code = code(&telegram, &ada).await;
        let becomes = json!({ "person": me });
        world.owner.post("/v1/pairings", json!({"code": code, "becomes": becomes})).await.ok();
        for number in 0..3 {
            let handle = telegram.keep(vec![number; 1024]);
            let mut part = json!({"media_group_id": "summer", "photo": [
                {"file_id": handle, "file_unique_id": handle, "width": 8, "height": 8,
                 "file_size": 1024}]});
            if number == 1 {
                part["caption"] = json!("Remember that this was Delos");
            }
            telegram.send(&ada, &ada.chat(), part);
        }
        telegram.wait_for(7, |one| one.text.contains("Delos")).await;
        let messages = world.owner.messages("main").await;
        let of_ada: Vec<_> = messages.iter().filter(|one| one["role"] == "user").collect();
        let [message] = of_ada.as_slice() else { panic!("{of_ada:?}") };
        let parts = message["parts"].as_array().unwrap();
        let pictures = parts.iter().filter(|part| part["type"] == "image").count();
        assert_eq!(pictures, 3, "{message}");
        let answers =
            telegram.sent_to(7).into_iter().filter(|one| one.text.contains("Delos")).count();
        assert_eq!(answers, 1);
    })
    .await;
}

/// In the chat, and once, also when the owner is at home elsewhere by then.
#[tokio::test]
async fn what_the_installation_says_comes_to_the_owners_chat() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let me = world.owner.get("/v1/me").await.ok()["person"]["id"].clone();
        let (phone, tablet) = (User::new(7, "Ada"), User::new(8, "Ada"));
        for user in [&phone, &tablet] {
            let code = code(&telegram, user).await;
            let becomes = json!({ "person": me });
            world.owner.post("/v1/pairings", json!({"code": code, "becomes": becomes})).await.ok();
            telegram.write(user, &user.chat(), "/home");
            telegram.wait_for(user.id, |one| one.text.contains("comes here from now on")).await;
            let notices = world.app(|app| app.notices.clone());
            notices.tell("today", "No backup was taken: the disk is full.").await.unwrap();
        }
        telegram.wait_for(7, |one| one.text.contains("the disk is full")).await;
        let notices = world.app(|app| app.notices.clone());
        notices.tell("tomorrow", "No backup was taken: the disk is gone.").await.unwrap();
        telegram.wait_for(8, |one| one.text.contains("the disk is gone")).await;
        let told: Vec<_> =
            telegram.sent().into_iter().filter(|one| one.text.contains("No backup")).collect();
        assert_eq!(told.len(), 2, "{told:?}");
    })
    .await;
}

/// A reminder comes where it was asked for.
#[tokio::test]
async fn a_schedule_speaks_in_the_chat_where_it_was_made() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let ada = User::new(7, "Ada");
        let code = code(&telegram, &ada).await;
        world.owner.post("/v1/pairings", json!({ "code": code })).await.ok();
        telegram.write(&ada, &ada.chat(), "Remind me in 2 seconds to drink tea");
        telegram.wait_for(7, |one| one.text.contains("I will remind you")).await;
        telegram.wait_for(7, |one| one.text.starts_with("Reminder")).await;
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
        let me = world.owner.get("/v1/me").await.ok()["person"]["id"].clone();
        let (phone, tablet) = (User::new(7, "Ada"), User::new(8, "Ada"));
        for user in [&phone, &tablet] {
            let code = code(&telegram, user).await;
            let becomes = json!({ "person": me });
            world.owner.post("/v1/pairings", json!({"code": code, "becomes": becomes})).await.ok();
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
        let code = code(&telegram, &ada).await;
        world.owner.post("/v1/pairings", json!({ "code": code })).await.ok();
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
        let code = code(&telegram, &ada).await;
        let paired = pair(world, &code, &Becomes::Person(owner)).await;
        assert!(matches!(paired, Paired::Done { .. }), "{paired:?}");
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
