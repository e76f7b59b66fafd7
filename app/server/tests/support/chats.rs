//! People who write to the assistant on a scripted platform.

use crate::support::{
    platforms::{Chat, Platforms, Shown},
    script::Script,
    seed::Seed,
    workload::{Person, Written},
    world::World,
};
use anyhow::{Context as _, Result, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

/// Somebody whom the owner has let in.
pub(crate) struct Guest<'a> {
    pub(crate) world: &'a World,
    pub(crate) platforms: &'a Platforms,
    pub(crate) chat: Chat,
}

impl<'a> Guest<'a> {
    /// A stranger writes, is told a code, and the owner lets them in by it, as a member.
    pub(crate) async fn let_in(world: &'a World, person: &Person, chat: Chat) -> Result<Self> {
        Self::enter(world, person, chat, json!({})).await
    }

    /// A stranger writes, is told a code, and the owner lets them in by it, as what `body` says.
    pub(crate) async fn enter(
        world: &'a World,
        person: &Person,
        chat: Chat,
        mut body: Value,
    ) -> Result<Self> {
        let platforms = world.platforms.as_ref().context("nobody chats in this world")?;
        let guest = Self { world, platforms, chat };
        let mut told = platforms.write(chat, "let me in");
        let (begun, mut written) = (Instant::now(), Instant::now());
        let code = loop {
            let sent = guest.shown();
            if let Some(code) = sent.iter().find_map(|one| one.bold.clone()) {
                break code;
            }
            ensure!(begun.elapsed() < PATIENCE, "no code was told: {sent:?}");
            if guest.is_to_write_again(told, written).await? {
                told = platforms.write(chat, "let me in");
                written = Instant::now();
            }
            sleep(LOOK).await;
        };
        body["code"] = json!(code);
        let (status, answer) =
            person.client.ask(Method::POST, "/v1/pairings", None, Some(&body)).await?;
        // A process that died may have let them in and said nothing.
        let done = status == StatusCode::OK || status == StatusCode::NOT_FOUND;
        ensure!(done, "POST /v1/pairings: {status}: {answer}");
        Ok(guest)
    }

    /// Whether a process took it along as it died, as people see by and by.
    pub(crate) async fn is_to_write_again(
        &self,
        told: Option<i64>,
        written: Instant,
    ) -> Result<bool> {
        const BY_AND_BY: Duration = Duration::from_secs(2);
        match told {
            Some(told) if written.elapsed() > BY_AND_BY => self.world.is_gone(told).await,
            Some(_) | None => Ok(false),
        }
    }

    /// Writes what is to be answered once.
    pub(crate) fn write(&self, script: &Script) -> Written {
        let (number, chat) = (self.world.log.number(), self.chat);
        let told = self.platforms.write(chat, &script.text(number));
        let written = Written { number, chat, told, script: script.clone() };
        self.world.log.write(written.clone());
        written
    }

    /// What stands in the chat.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        self.platforms.sent_to(self.chat)
    }

    /// Writes until told to end, on good days and bad ones.
    pub(crate) async fn chatter(&self, mut seed: Seed, end: CancellationToken) -> Result<()> {
        while !end.is_cancelled() {
            let book = seed.percent(10);
            let script =
                Script { long: seed.percent(10), cut: seed.percent(5), ..Script::default() };
            self.write(&Script { book, ..script });
            if seed.percent(30) {
                self.platforms.fault(self.chat, &mut seed);
            }
            sleep(Duration::from_millis(seed.between(0, 1_500))).await;
        }
        Ok(())
    }
}
