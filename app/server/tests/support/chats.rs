//! People who write to the bot of a scripted Telegram.

use crate::support::{
    script::Script,
    seed::Seed,
    workload::{Person, Written},
    world::World,
};
use anyhow::{Context as _, Result, ensure};
use famulus_scripted_telegram::{Fault, Telegram, User};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// As the harness has it.
pub(crate) const TOKEN: &str = "99:known-to-every-crash-test";

const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

/// Somebody whom the owner has let in.
pub(crate) struct Guest<'a> {
    pub(crate) world: &'a World,
    pub(crate) telegram: &'a Telegram,
    pub(crate) user: User,
}

impl<'a> Guest<'a> {
    /// A stranger writes, is told a code, and the owner lets them in by it, as a member.
    pub(crate) async fn let_in(world: &'a World, person: &Person, id: i64) -> Result<Self> {
        Self::enter(world, person, id, json!({})).await
    }

    /// A stranger writes, is told a code, and the owner lets them in by it, as what `body` says.
    pub(crate) async fn enter(
        world: &'a World,
        person: &Person,
        id: i64,
        mut body: Value,
    ) -> Result<Self> {
        let telegram = world.telegram.as_ref().context("nobody chats in this world")?;
        let user = User::new(id, &format!("Guest {id}"));
        telegram.write(&user, &user.chat(), "let me in");
        let begun = Instant::now();
        let code = loop {
            let sent = telegram.sent_to(id);
            let bold = sent.iter().find_map(|one| {
                let bold = one.entities.iter().find(|entity| entity.kind == "bold")?;
                Some(one.text.chars().skip(bold.offset).take(bold.length).collect::<String>())
            });
            match bold {
                Some(code) => break code,
                None => sleep(LOOK).await,
            }
            ensure!(begun.elapsed() < PATIENCE, "no code was told: {sent:?}");
        };
        body["code"] = json!(code);
        let (status, answer) =
            person.client.ask(Method::POST, "/v1/pairings", None, Some(&body)).await?;
        // A process that died may have let them in and said nothing.
        let done = status == StatusCode::OK || status == StatusCode::NOT_FOUND;
        ensure!(done, "POST /v1/pairings: {status}: {answer}");
        Ok(Self { world, telegram, user })
    }

    /// Writes what is to be answered once.
    pub(crate) fn write(&self, script: &Script) -> Written {
        let number = self.world.log.number();
        let written = Written { number, chat: self.user.id, script: script.clone() };
        self.world.log.write(written.clone());
        self.telegram.write(&self.user, &self.user.chat(), &script.text(number));
        written
    }

    /// Writes until told to end, on good days and bad ones.
    pub(crate) async fn chatter(&self, mut seed: Seed, end: CancellationToken) -> Result<()> {
        while !end.is_cancelled() {
            let book = seed.percent(10);
            let script =
                Script { long: seed.percent(10), cut: seed.percent(5), ..Script::default() };
            self.write(&Script { book, ..script });
            if seed.percent(30) {
                self.telegram.fault(bad_method(&mut seed), bad_day(&mut seed));
            }
            sleep(Duration::from_millis(seed.between(0, 1_500))).await;
        }
        Ok(())
    }
}

fn bad_method(seed: &mut Seed) -> &'static str {
    let methods = ["getupdates", "sendmessage", "*"];
    seed.pick(&methods).copied().unwrap_or("*")
}

fn bad_day(seed: &mut Seed) -> Fault {
    match seed.below(6) {
        0 => Fault::Busy(1),
        1 => Fault::Status(502),
        2 => Fault::CutBefore,
        3 => Fault::CutAfter,
        4 => Fault::Malformed,
        _ => Fault::Slow(Duration::from_millis(400)),
    }
}
