//! A value that is given in a chat goes to who sees to plugins, and stands nowhere else: in no row that was ever
//! written, in no log, in nothing that a model was asked, and in nothing that anybody is sent.

use crate::{
    plugins::{Credulous, weather},
    signal,
    telegram::{self, TOKEN},
    world::{self, Logs, Puppet, Setup, Text as _, World, say, soon},
};
use famulus_core::{model::ModelRequest, sandbox::RunOutput};
use famulus_scripted_signal::{Signal, User as SignalUser};
use famulus_scripted_telegram::{Telegram, User};
use famulus_server::plugins::{Plugins, Ports};
use famulus_tools::fake::plugins::{FakeManaged, Play, result};
use serde_json::{Value, json};
use std::{fmt::Write as _, sync::Arc, time::Duration};
use tokio::time::sleep;

/// The value, and words that do stand everywhere: whoever looks for the one finds the other.
const SECRET: &str = "canary7f3a9c";
const PLAIN: &str = "sparrow5b2e8d";
const LOOK: Duration = Duration::from_millis(20);

fn assigns() -> String {
    format!("/Configure weather api_key {SECRET}")
}

struct Bench {
    logs: Logs,
    model: Arc<Puppet>,
    managed: Arc<FakeManaged>,
}

impl Bench {
    fn new() -> Self {
        let model = Puppet::new(|_, request| vec![say(format!("Noted: {}", request.last()))]);
        Self { logs: Logs::default(), model, managed: Arc::default() }
    }

    fn setup(&self, change: impl FnOnce(&mut famulus_server::config::Config)) -> Setup {
        let sandboxes = weather(|| Play::End(result(RunOutput::Text(String::new()))));
        let ports = Ports {
            sandboxes,
            runners: Arc::new(Credulous),
            managed: self.managed.clone(),
            installed: None,
        };
        let setup = Setup::new(self.model.clone()).set(change);
        Setup { plugins: Plugins::Given(ports), ..setup }
    }

    /// How often the key was set.
    fn set(&self) -> usize {
        let asked = self.managed.asked.lock();
        let sets = |line: &&String| {
            line.contains(" configures api_key of weather: ") && line.contains(SECRET)
        };
        asked.iter().filter(sets).count()
    }

    /// Looks everywhere, when nothing is under way any more. `sent` is what went to platforms and callers.
    async fn stands_nowhere(&self, world: &World, sent: &str) {
        let settled = async {
            while world.database.count("select count(*) from arrival").await > 0 {
                sleep(LOOK).await;
            }
        };
        soon("all that was heard is read", settled).await;
        let rows = world.database.noted_rows().await;
        let mut asked = String::new();
        for request in self.model.asked(1).await {
            let ModelRequest { system, context, messages, tools, .. } = request;
            writeln!(asked, "{system} {context} {messages:?} {tools:?}").unwrap();
        }
        let found = |text: &str, word: &str| text.contains(word) || text.contains(&hex(word));
        for (what, text) in [("rows", rows.as_str()), ("the model", &asked), ("sent", sent)] {
            assert!(found(text, PLAIN), "nothing is found in {what}: {text}");
            assert!(!found(text, SECRET), "it stands in {what}: {}", lines(text));
        }
        // Logs hold nothing of what people write, and what is logged is found.
        let before = self.logs.text();
        tracing::info!(target: "famulus", word = PLAIN, "a word is looked for");
        assert!(self.logs.text().contains(PLAIN), "nothing is found in the logs");
        for word in [SECRET, PLAIN] {
            let logged: Vec<&str> = before.lines().filter(|line| line.contains(word)).collect();
            assert_eq!(logged, Vec::<&str>::new());
        }
    }
}

/// As Postgres shows bytes.
fn hex(word: &str) -> String {
    let mut hex = String::new();
    for byte in word.bytes() {
        write!(hex, "{byte:02x}").unwrap();
    }
    hex
}

/// The lines in which it stands.
fn lines(text: &str) -> String {
    let found = text.lines().filter(|line| line.contains(SECRET) || line.contains(&hex(SECRET)));
    found.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_value_that_is_written_to_a_bot_stands_nowhere_and_its_message_is_deleted() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    let bench = Bench::new();
    let _logs = tracing::subscriber::set_default(bench.logs.clone());
    let setup = bench.setup(|config| {
        config.channels.telegram.token = Some(TOKEN.to_owned().into());
        config.channels.telegram.base_url = Some(telegram.base_url().parse().unwrap());
    });
    world::run(setup, async |world| {
        let (ada, bob, eve) = (User::new(7, "Ada"), User::new(8, "Bob"), User::new(9, "Eve"));
        telegram::let_in(world, &telegram, &ada, true).await;
        telegram::let_in(world, &telegram, &bob, false).await;
        world.database.note_rows().await;

        let number = telegram.write(&ada, &ada.chat(), &assigns());
        let set = "api_key of weather is set. I deleted your message.";
        telegram.wait_for(7, |one| one.text == set).await;
        assert_eq!((bench.set(), telegram.deleted()), (1, vec![(7, number)]));

        // Whoever is not the owner sets nothing, and what is not the owner's own word sets nothing.
        telegram.write(&bob, &bob.chat(), &assigns());
        telegram.wait_for(8, |one| one.text == "Only the owner sets keys of plugins.").await;
        telegram.write(&eve, &eve.chat(), &assigns());
        telegram.wait_for(9, |one| one.text.contains("people pair")).await;
        let edited = telegram.write(&ada, &ada.chat(), "wait");
        telegram.edit(&ada, &ada.chat(), edited, json!({"text": assigns()}));
        let origin = json!({"type": "hidden_user", "sender_user_name": "Eve", "date": 1});
        let forwarded = json!({"text": assigns(), "forward_origin": origin});
        telegram.send(&ada, &ada.chat(), forwarded);
        let picture = json!([{"file_id": "f", "file_unique_id": "u", "width": 8, "height": 8}]);
        telegram.send(&ada, &ada.chat(), json!({"caption": assigns(), "photo": picture}));
        telegram.wait_for(7, |one| one.text.contains("without files")).await;
        let answered = json!({
            "text": format!("is {PLAIN} right?"),
            "reply_to_message": {"message_id": number, "date": 1, "chat": {"id": 7, "type": "private"},
                "from": {"id": 7, "first_name": "Ada"}, "text": assigns()},
            "quote": {"text": SECRET, "position": 27},
        });
        telegram.send(&ada, &ada.chat(), answered);
        telegram.write(&bob, &bob.chat(), &format!("I like {PLAIN}"));
        for chat in [7, 8] {
            telegram.wait_for(chat, |one| one.text.contains(PLAIN)).await;
        }
        assert_eq!(bench.set(), 1);
        let told = world.owner.messages("main").await;
        let sent = format!("{:?} {told:?}", telegram.calls());
        bench.stands_nowhere(world, &sent).await;
    })
    .await;
}

#[tokio::test]
async fn a_value_that_is_written_on_signal_stands_nowhere_and_its_writer_is_to_delete_it() {
    let daemon = Signal::start().await.unwrap();
    let bench = Bench::new();
    let _logs = tracing::subscriber::set_default(bench.logs.clone());
    let setup = bench.setup(|config| {
        config.channels.signal.url = Some(daemon.base_url().parse().unwrap());
        config.channels.signal.serves_everybody = true;
    });
    world::run(setup, async |world| {
        let (ada, bob) = (SignalUser::new(7, "Ada"), SignalUser::new(8, "Bob"));
        signal::let_in(world, &daemon, &ada, true).await;
        signal::let_in(world, &daemon, &bob, false).await;
        world.database.note_rows().await;
        daemon.write(&ada, &assigns());
        let told = daemon.wait_for(&ada.id, |one| one.text.contains("is set")).await.text;
        assert!(
            told.starts_with("api_key of weather is set.") && told.contains("delete it yourself")
        );
        assert_eq!(bench.set(), 1);

        daemon.write(&bob, &assigns());
        daemon.wait_for(&bob.id, |one| one.text.starts_with("Only the owner")).await;
        let first = daemon.write(&ada, "wait");
        daemon.edit(&ada, first, json!({"message": assigns()}));
        let quote = json!({"id": 1, "author": ada.id, "authorUuid": ada.id, "text": assigns()});
        daemon.send(&ada, json!({"message": format!("is {PLAIN} right?"), "quote": quote}));
        daemon.write(&bob, &format!("I like {PLAIN}"));
        for user in [&ada, &bob] {
            daemon.wait_for(&user.id, |one| one.text.contains(PLAIN)).await;
        }
        assert_eq!(bench.set(), 1);
        let told = world.owner.messages("main").await;
        let sent = format!("{:?} {told:?}", daemon.calls());
        bench.stands_nowhere(world, &sent).await;
    })
    .await;
}

#[tokio::test]
async fn a_value_that_somebody_notes_to_themselves_on_signal_stands_nowhere() {
    let daemon = Signal::start().await.unwrap();
    let bench = Bench::new();
    let _logs = tracing::subscriber::set_default(bench.logs.clone());
    let setup = bench.setup(|config| {
        config.channels.signal.url = Some(daemon.base_url().parse().unwrap());
    });
    world::run(setup, async |world| {
        let own = daemon.account();
        daemon.sync(&own, json!({"message": "let me in"}));
        signal::pair(world, &signal::code(&daemon, &own).await, true).await;
        world.database.note_rows().await;
        daemon.sync(&own, json!({"message": assigns()}));
        daemon.wait_for(&own, |one| one.text.starts_with("api_key of weather is set.")).await;
        assert_eq!(bench.set(), 1);
        daemon.sync(&own, json!({"message": format!("I like {PLAIN}")}));
        daemon.wait_for(&own, |one| one.text.contains(PLAIN)).await;
        let told = world.owner.messages("main").await;
        let sent = format!("{:?} {told:?}", daemon.calls());
        bench.stands_nowhere(world, &sent).await;
    })
    .await;
}

#[tokio::test]
async fn a_value_that_is_posted_stands_nowhere() {
    let bench = Bench::new();
    let _logs = tracing::subscriber::set_default(bench.logs.clone());
    world::run(bench.setup(|_| ()), async |world| {
        world.database.note_rows().await;
        let owner = &world.owner;
        let reply = owner.post_keyed("/chat", "once", json!({"message": assigns()})).await.ok();
        assert_eq!(reply["response"], "`api_key` of `weather` is set.");
        assert_eq!(reply["message_id"], Value::Null);
        let path = "/v1/conversations/main/messages";
        let taken = owner.post_keyed(path, "twice", json!({"text": assigns()})).await.ok();
        assert_eq!(taken["disposition"], "command", "{taken}");
        assert_eq!(bench.set(), 2);
        // With a file it is no assignment, and no message either.
        let stored = owner.upload("a file").await;
        let beside = json!({"text": assigns(), "attachments": [{"blob": {"id": stored}}]});
        let refused = owner.post(path, beside).await.ok();
        assert_eq!(refused["disposition"], "command", "{refused}");
        assert!(refused["notice"].as_str().unwrap().contains("without files"), "{refused}");
        assert_eq!(bench.set(), 2);
        owner.say(&format!("I like {PLAIN}")).await;
        let told = owner.messages("main").await;
        bench.stands_nowhere(world, &format!("{reply} {taken} {refused} {told:?}")).await;
    })
    .await;
}
