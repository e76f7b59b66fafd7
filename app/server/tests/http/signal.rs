//! People who write to an account of a scripted daemon of signal-cli, from the first word to the reply.

use crate::world::{self, Setup, World};
use famulus_core::pairing::Access;
use famulus_scripted_signal::{Message, Signal, User};
use famulus_scripted_telegram::Telegram;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TOKEN: &str = "99:the-bot's-secret";

pub(crate) fn setup(signal: &Signal) -> Setup {
    let demo = famulus_models::Config::default();
    Setup::configured(demo).set(|config| {
        config.channels.signal.url = Some(signal.base_url().parse().unwrap());
        config.channels.signal.serves_everybody = true;
    })
}

/// The code that a stranger was told.
pub(crate) async fn code(signal: &Signal, to: &str) -> String {
    let told = signal.wait_for(to, |one| one.text.contains("people pair")).await;
    let code = told.styles.iter().find(|(kind, _)| kind == "BOLD");
    code.map(|(_, code)| code.clone()).unwrap()
}

/// Lets somebody in as an account of the owner's, or as a member.
pub(crate) async fn let_in(world: &World, signal: &Signal, user: &User, is_owner: bool) {
    signal.write(user, "let me in");
    pair(world, &code(signal, &user.id).await, is_owner).await;
}

pub(crate) async fn pair(world: &World, code: &str, is_owner: bool) {
    let mut body = json!({ "code": code });
    if is_owner {
        body["becomes"]["person"] = world.owner.get("/v1/me").await.ok()["person"]["id"].clone();
    }
    world.owner.post("/v1/pairings", body).await.ok();
}

fn says(word: &str) -> impl Fn(&Message) -> bool {
    move |message| message.text.contains(word)
}

#[tokio::test]
async fn a_stranger_is_paired_and_talks() {
    let signal = Signal::start().await.unwrap();
    world::run(setup(&signal), async |world| {
        let ada = User::hidden(7, "Ada");
        // What was written before anybody listened is heard.
        let_in(world, &signal, &ada, false).await;
        signal.write(&ada, "Remember that my cat is called Miso");
        signal.wait_for(&ada.id, says("I will remember")).await;
        signal.write(&ada, "What is my cat called?");
        signal.wait_for(&ada.id, says("You told me: my cat is called Miso")).await;
        assert!(signal.receipts().len() >= 3, "each is shown as read: {:?}", signal.receipts());
        assert_eq!(signal.sent_to(&ada.id).len(), 3, "{:?}", signal.sent_to(&ada.id));
        let channels = world.owner.get("/v1/channels").await.ok();
        assert_eq!(channels["channels"][0]["name"], "+15550000099", "{channels}");
    })
    .await;
}

/// A daemon without an account is linked, heard, and written to.
#[tokio::test]
async fn an_account_is_linked_by_a_phone_and_heard() {
    let signal = Signal::start().await.unwrap();
    signal.set_accounts(&[]);
    world::run(setup(&signal), async |world| {
        let body = json!({"channel": "signal"});
        let begun = world.owner.post("/v1/links", body).await.ok();
        let link = begun["link"].as_str().unwrap();
        signal.scan(link, &User::new(99, "Home"));
        let open = json!({"channel": "signal", "link": link});
        let linked = world.owner.post("/v1/links/finish", open.clone()).await.ok();
        assert_eq!(linked["account"], "+15550000099");
        let ada = User::new(7, "Ada");
        let_in(world, &signal, &ada, false).await;

        let again = world.owner.post("/v1/links/finish", open).await.refused(409);
        assert!(again.contains("Unknown device link uri"), "{again}");
        let nowhere = json!({"channel": "telegram"});
        world.owner.post("/v1/links", nowhere).await.refused(404);
    })
    .await;
}

#[tokio::test]
async fn a_number_is_registered_and_heard() {
    let signal = Signal::start().await.unwrap();
    signal.set_accounts(&[]);
    signal.want_captcha();
    world::run(setup(&signal), async |world| {
        let number = "+15550000099";
        let mut new = json!({"channel": "signal", "number": number});
        let post = async |path: &str, body: &Value| world.owner.post(path, body.clone()).await;
        let wanted = post("/v1/registrations", &new).await;
        let remedy = wanted.body["remedy"].as_str().unwrap().to_owned();
        assert!(remedy.contains("signalcaptchas.org") && remedy.contains("--captcha"), "{remedy}");
        wanted.refused(409);
        new["captcha"] = json!("signalcaptcha://signal-hcaptcha.solved");
        post("/v1/registrations", &new).await.ok();
        let (code, _) = signal.code_of(number).unwrap();
        let told = json!({"channel": "signal", "number": number, "code": code});
        let done = post("/v1/registrations/verify", &told).await.ok();
        assert_eq!(done["account"], number);
        let_in(world, &signal, &User::new(7, "Ada"), false).await;

        post("/v1/registrations/verify", &told).await.refused(409);
        let nowhere = json!({"channel": "telegram", "number": number});
        post("/v1/registrations", &nowhere).await.refused(404);
        for wrong in ["5550000099", "+1", "+1555000009x", "+1234567890123456"] {
            let new = json!({"channel": "signal", "number": wrong});
            let refused = post("/v1/registrations", &new).await.refused(400);
            assert!(refused.contains("`number`"), "{refused}");
        }
    })
    .await;
}

#[tokio::test]
async fn whoever_has_a_listed_number_needs_no_code() {
    let signal = Signal::start().await.unwrap();
    let setup = setup(&signal).set(|config| {
        config.channels.signal.access = Access::Allowlist;
        config.channels.signal.allow = vec!["+15550000007".to_owned(), "+15550000008".to_owned()];
    });
    world::run(setup, async |_| {
        // A number that nobody sees is looked up all the same, and what somebody says of theirs is not asked.
        let (ada, bob) = (User::hidden(7, "Ada"), User::new(8, "Bob"));
        let eve = User { id: User::new(9, "Eve").id, ..bob.clone() };
        signal.write(&eve, "it is me");
        signal.write(&ada, "What time is it?");
        signal.wait_for(&ada.id, says("It is")).await;
        signal.write(&bob, "What time is it?");
        signal.wait_for(&bob.id, says("It is")).await;
        assert_eq!(signal.sent_to(&eve.id), [], "she says that she has his number");
    })
    .await;
}

/// Whoever looks for their phone holds up no stop.
#[tokio::test]
async fn a_stop_does_not_wait_for_a_phone() {
    let signal = Signal::start().await.unwrap();
    world::run(setup(&signal), async |world| {
        let begun = world.owner.post("/v1/links", json!({"channel": "signal"})).await.ok();
        let open = json!({"channel": "signal", "link": begun["link"]});
        let ending = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            world.end_first().await;
        };
        let since = Instant::now();
        let (waited, ()) = tokio::join!(world.owner.post("/v1/links/finish", open), ending);
        waited.refused(503);
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    })
    .await;
}

#[tokio::test]
async fn a_picture_comes_in_and_goes_back() {
    let signal = Signal::start().await.unwrap();
    world::run(setup(&signal), async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &signal, &ada, false).await;
        let picture = vec![7; 700 * 1024];
        let id = signal.keep(picture.clone());
        let attachment = json!({"contentType": "image/png", "filename": "cat.png", "id": id,
            "size": picture.len(), "width": 8, "height": 8, "caption": null});
        signal.send(&ada, json!({"message": "Send it back", "attachments": [attachment]}));
        let back = signal.wait_for(&ada.id, |one| !one.files.is_empty()).await;
        assert_eq!(
            (back.files[0].name.as_str(), back.files[0].media_type.as_str()),
            ("cat.png", "image/png")
        );
        assert!(back.files[0].bytes == picture);
    })
    .await;
}

/// There are no buttons: the words do it, and the question says what became of it.
#[tokio::test]
async fn a_question_is_answered_by_its_code_and_by_nobody_else() {
    let signal = Signal::start().await.unwrap();
    world::run(setup(&signal), async |world| {
        let (ada, bob) = (User::new(7, "Ada"), User::new(8, "Bob"));
        let_in(world, &signal, &ada, true).await;
        let_in(world, &signal, &bob, false).await;
        signal.write(&ada, "Remember that my cat is called Miso");
        signal.wait_for(&ada.id, says("I will remember")).await;
        signal.write(&ada, "Forget my cat");
        let question = signal.wait_for(&ada.id, says("/approve ")).await;
        let (_, rest) = question.text.split_once("/approve ").unwrap();
        let code: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        signal.write(&bob, &format!("/approve {code}"));
        signal.wait_for(&bob.id, says("There is no question with this code")).await;
        signal.write(&ada, &format!("/approve {code}"));
        signal.wait_for(&ada.id, says("I have forgotten")).await;
        let closed = signal.wait_for(&ada.id, says("Approved by")).await;
        assert_eq!(closed.edits, 1, "it took the question's place");

        // A reaction is no answer, and like any other message it comes instead of one.
        signal.write(&ada, "Remember that my dog is called Rex");
        signal.wait_for(&ada.id, says("my dog is called Rex")).await;
        signal.write(&ada, "Forget my dog");
        let is_question =
            |one: &Message| one.text.contains("/approve ") && one.text.contains("dog");
        let question = signal.wait_for(&ada.id, is_question).await;
        signal.send(
            &ada,
            json!({"reaction": {"emoji": "👍", "targetAuthorUuid": signal.account(),
            "targetSentTimestamp": question.timestamp, "isRemove": false}}),
        );
        signal.wait_for(&ada.id, says("Withdrawn")).await;
        let forgot = signal
            .sent_to(&ada.id)
            .iter()
            .filter(|one| one.text.contains("I have forgotten"))
            .count();
        assert_eq!(forgot, 1, "the cat alone");
    })
    .await;
}

#[tokio::test]
async fn one_conversation_goes_on_on_two_platforms() {
    let (signal, telegram) =
        (Signal::start().await.unwrap(), Telegram::start(TOKEN).await.unwrap());
    let setup = setup(&signal).set(|config| {
        config.channels.telegram.token = Some(TOKEN.to_owned().into());
        config.channels.telegram.base_url = Some(telegram.base_url().parse().unwrap());
    });
    world::run(setup, async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &signal, &ada, true).await;
        let other = famulus_scripted_telegram::User::new(7, "Ada");
        telegram.write(&other, &other.chat(), "let me in");
        let told = telegram.wait_for(7, |one| one.text.contains("people pair")).await;
        let bold = told.entities.iter().find(|entity| entity.kind == "bold").unwrap();
        let code: String = told.text.chars().skip(bold.offset).take(bold.length).collect();
        pair(world, &code, true).await;

        telegram.write(&other, &other.chat(), "Remember that my ship is called Argo");
        telegram.wait_for(7, |one| one.text.contains("I will remember")).await;
        signal.write(&ada, "What is my ship called?");
        signal.wait_for(&ada.id, says("my ship is called Argo")).await;
        assert!(
            !signal.sent_to(&ada.id).iter().any(says("I will remember")),
            "each where it was asked"
        );
        assert!(!telegram.sent_to(7).iter().any(|one| one.text.contains("You told me")));
        let said = world.owner.messages("main").await;
        let texts: Vec<String> = said.iter().map(ToString::to_string).collect();
        let place = |word: &str| texts.iter().position(|text| text.contains(word));
        assert!(place("Remember that my ship") < place("What is my ship"), "{texts:?}");
        assert!(place("What is my ship").is_some(), "one conversation: {texts:?}");
    })
    .await;
}

/// At the latest when it is looked for the next time, fifteen seconds after its own.
#[tokio::test]
async fn what_is_to_vanish_is_gone_with_its_answer_and_the_rest_stays() {
    let signal = Signal::start().await.unwrap();
    world::run(setup(&signal), async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &signal, &ada, true).await;
        signal.write(&ada, "Remember that my cat is called Miso");
        signal.wait_for(&ada.id, says("I will remember")).await;
        signal.send(&ada, json!({"message": "What time is it? (xyzzy)", "expiresInSeconds": 1}));
        signal.wait_for(&ada.id, says("It is")).await;
        let since = Instant::now();
        let rest = loop {
            let said = Value::Array(world.owner.messages("main").await).to_string();
            if !said.contains("xyzzy") {
                break said;
            }
            let (own, looked_for, busy) = (1, 15, 5);
            assert!(since.elapsed().as_secs() < own + looked_for + busy, "{said}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        };
        assert!(!rest.contains("It is") && rest.contains("I will remember"), "{rest}");
        signal.write(&ada, "What is my cat called?");
        signal.wait_for(&ada.id, says("You told me: my cat is called Miso")).await;
    })
    .await;
}

/// What friends write to a person's own account is none of ours.
#[tokio::test]
async fn a_persons_own_account_is_spoken_to_in_notes_to_self() {
    let signal = Signal::start().await.unwrap();
    let setup = setup(&signal).set(|config| config.channels.signal.serves_everybody = false);
    world::run(setup, async |world| {
        let (ada, own) = (User::new(7, "Ada"), signal.account());
        signal.write(&ada, "are you there?");
        signal.sync(&own, json!({"message": "let me in"}));
        pair(world, &code(&signal, &own).await, true).await;
        signal.sync(&own, json!({"message": "What time is it?"}));
        signal.wait_for(&own, says("It is")).await;
        assert_eq!(signal.sent_to(&ada.id), [], "a friend hears nothing of it");
        assert_eq!(signal.typing(), Vec::<String>::new());
        assert_eq!(world.database.count("select count(*) from arrival").await, 0);
    })
    .await;
}
