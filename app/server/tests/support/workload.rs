//! What is asked of the assistant while things die, and the log of it.

use crate::support::{
    client::{Ack, Client, Meeting},
    platforms::Chat,
    script::{Script, Word},
    seed::Seed,
    streams,
    viewer::Viewer,
    world::World,
};
use anyhow::{Result, ensure};
use futures::future::try_join_all;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often a client looks whether something has happened.
const LOOK: Duration = Duration::from_millis(30);

/// A message that was acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) number: u64,
    pub(crate) key: String,
    pub(crate) conversation: Uuid,
    pub(crate) script: Script,
    pub(crate) meeting: Meeting,
    pub(crate) ack: Ack,
    /// From its first try to its acknowledgement.
    pub(crate) during: Span,
}

/// Microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begun: i64,
    pub(crate) ended: i64,
}

pub(crate) fn now() -> i64 {
    use famulus_core::{Clock as _, clock::SystemClock};
    SystemClock.now().as_microsecond()
}

/// A message that somebody wrote on a chat platform.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) number: u64,
    pub(crate) chat: Chat,
    /// By which Signal knows it.
    pub(crate) told: Option<i64>,
    pub(crate) script: Script,
}

/// A schedule that was made: its script runs once, when it is due.
#[derive(Clone, Debug)]
pub(crate) struct Scheduled {
    pub(crate) number: u64,
    pub(crate) note: String,
    pub(crate) script: Script,
}

/// Everything that the outside knows of a run.
#[derive(Default)]
pub(crate) struct Log {
    inner: Mutex<Inner>,
    numbers: AtomicU64,
    /// Files that were stored.
    pub(crate) files: Mutex<Vec<(Uuid, Vec<u8>)>>,
    /// What was said in those that are recordings.
    pub(crate) recordings: Mutex<HashMap<Uuid, String>>,
    /// Turns that somebody took from the dead letters.
    pub(crate) retried: Mutex<Vec<Uuid>>,
}

#[derive(Clone, Default)]
struct Inner {
    sent: Vec<Sent>,
    written: Vec<Written>,
    scheduled: Vec<Scheduled>,
    /// When somebody asked to stop, and was answered.
    stops: Vec<(Uuid, Span)>,
}

impl Log {
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.inner.lock().sent.clone()
    }

    pub(crate) fn scheduled(&self) -> Vec<Scheduled> {
        self.inner.lock().scheduled.clone()
    }

    /// In the order of each chat.
    pub(crate) fn written(&self) -> Vec<Written> {
        self.inner.lock().written.clone()
    }

    pub(crate) fn write(&self, written: Written) {
        self.inner.lock().written.push(written);
    }

    /// The stops of a conversation.
    pub(crate) fn stops(&self, conversation: Uuid) -> Vec<Span> {
        let inner = self.inner.lock();
        inner.stops.iter().filter(|(of, _)| *of == conversation).map(|(_, span)| *span).collect()
    }

    /// How often a turn was to be worked.
    pub(crate) fn tries(&self, turn: Uuid) -> usize {
        1 + self.retried.lock().iter().filter(|retried| **retried == turn).count()
    }

    /// What the owner answers to a question of this message; `None` before it is acknowledged, and
    /// to one that is to stay open.
    fn answer(&self, number: u64) -> Option<bool> {
        let inner = self.inner.lock();
        let sent = inner.sent.iter().find(|sent| sent.number == number)?;
        (!sent.script.ignored).then_some(!sent.script.denied)
    }

    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Somebody who talks to the assistant and keeps the log.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) client: Client,
    pub(crate) log: Arc<Log>,
}

impl Person {
    /// Sends a message, and now and then repeats it: a repeat must change nothing.
    pub(crate) async fn say(
        &self,
        conversation: Uuid,
        script: Script,
        meeting: Meeting,
    ) -> Result<Sent> {
        let sent = self.say_once(conversation, script, meeting).await?;
        if sent.number.is_multiple_of(3) {
            self.repeat(&sent).await?;
        }
        Ok(sent)
    }

    /// Sends a message until it is acknowledged.
    pub(crate) async fn say_once(
        &self,
        conversation: Uuid,
        script: Script,
        meeting: Meeting,
    ) -> Result<Sent> {
        let number = self.log.number();
        let key = format!("key-{number}");
        let text = script.text(number);
        let begun = now();
        let ack = self.client.say(conversation, &key, &text, meeting, script.file).await?;
        let during = Span { begun, ended: now() };
        let sent = Sent { number, key, conversation, script, meeting, ack, during };
        self.log.inner.lock().sent.push(sent.clone());
        Ok(sent)
    }

    /// Sends an acknowledged message again.
    pub(crate) async fn repeat(&self, sent: &Sent) -> Result<()> {
        let text = sent.script.text(sent.number);
        let again = self
            .client
            .say(sent.conversation, &sent.key, &text, sent.meeting, sent.script.file)
            .await?;
        let (disposition, message) = ("duplicate".to_owned(), sent.ack.message);
        let named = Ack { disposition, message, turn: again.turn };
        let turns = [Some(sent.ack.turn), self.client.successor_of(sent.ack.turn).await?];
        ensure!(
            again == named && turns.contains(&Some(again.turn)),
            "the repeat of {sent:?} was answered with {again:?}"
        );
        Ok(())
    }

    /// Stores a file.
    pub(crate) async fn upload(&self, bytes: Vec<u8>) -> Result<Uuid> {
        let file = self.client.upload(&bytes, "text/plain").await?;
        self.log.files.lock().push((file, bytes));
        Ok(file)
    }

    /// Stores a recording of these words.
    pub(crate) async fn speak(&self, words: String) -> Result<Uuid> {
        let recording = self.client.upload(words.as_bytes(), "audio/ogg").await?;
        self.log.files.lock().push((recording, words.clone().into_bytes()));
        self.log.recordings.lock().insert(recording, words);
        Ok(recording)
    }

    pub(crate) async fn schedule(&self, conversation: Uuid, script: Script) -> Result<()> {
        let number = self.log.number();
        let note = script.text(number);
        self.client.schedule(conversation, &note).await?;
        self.log.inner.lock().scheduled.push(Scheduled { number, note, script });
        Ok(())
    }

    /// Stops what runs in a conversation.
    pub(crate) async fn stop(&self, conversation: Uuid) -> Result<()> {
        let begun = now();
        let stopped = self.client.stop(conversation).await;
        self.log.inner.lock().stops.push((conversation, Span { begun, ended: now() }));
        stopped
    }

    pub(crate) async fn until_ended(&self, sent: &Sent) -> Result<()> {
        loop {
            match self.client.state_of(sent.ack.turn).await?.as_str() {
                "complete" | "failed" | "cancelled" => return Ok(()),
                _ => sleep(LOOK).await,
            }
        }
    }

    /// Answers every question until told to end.
    pub(crate) async fn answer(self, end: CancellationToken) -> Result<()> {
        while !end.is_cancelled() {
            for (question, summary) in self.client.questions().await? {
                if let Some(yes) = number_in(&summary).and_then(|number| self.log.answer(number)) {
                    self.client.decide(question, yes).await?;
                }
            }
            sleep(LOOK * 2).await;
        }
        Ok(())
    }
}

/// The message's number in a question such as `count 17 at 0`.
fn number_in(summary: &str) -> Option<u64> {
    summary.strip_prefix("count ")?.split(' ').next()?.parse().ok()
}

/// Whatever may be asked, again and again, until told to end; somebody watches all of it.
pub(crate) async fn chatter(
    world: &World,
    person: Person,
    mut seed: Seed,
    end: CancellationToken,
) -> Result<()> {
    while !end.is_cancelled() {
        let conversation = person.client.converse().await?;
        let viewer = Viewer::new(person.client.clone(), Arc::clone(&world.fleet), conversation);
        let said = CancellationToken::new();
        let talking = async {
            talk(&person, conversation, &mut seed, &end).await?;
            said.cancel();
            Ok(())
        };
        tokio::try_join!(talking, streams::watch(world, viewer, said.clone()))?;
    }
    Ok(())
}

/// A prompt holds the conversation: with more messages a run would measure the prompt.
const MESSAGES: u32 = 40;

async fn talk(
    person: &Person,
    conversation: Uuid,
    seed: &mut Seed,
    end: &CancellationToken,
) -> Result<()> {
    for _ in 0..MESSAGES {
        if end.is_cancelled() {
            return Ok(());
        }
        let meeting = if seed.percent(25) { Meeting::Steer } else { Meeting::Queue };
        let sent = person.say(conversation, random_script(seed), meeting).await?;
        match seed.below(20) {
            0 => {
                sleep(Duration::from_millis(seed.between(0, 300))).await;
                person.stop(conversation).await?;
                // What comes right behind a stop is not stopped.
                person.say(conversation, random_script(seed), Meeting::Steer).await?;
            }
            // Several at once, which join the turn that runs, or one another's. They call no tools,
            // of which a turn may not have any number.
            8 => {
                let scripts = [false, seed.percent(20), false];
                let say = |fails| {
                    let script = Script { fails, ..Script::default() };
                    person.say(conversation, script, Meeting::Steer)
                };
                try_join_all(scripts.map(say)).await?;
            }
            9 => {
                let file = if seed.percent(50) {
                    person.speak(sent.key).await?
                } else {
                    person.upload(sent.key.into_bytes()).await?
                };
                let script = Script { file: Some(file), ..random_script(seed) };
                person.say(conversation, script, Meeting::Queue).await?;
            }
            1 => person.schedule(conversation, Script::new(&[&[Word::A]])).await?,
            // The next one waits behind it, or joins it.
            2..8 => {}
            _ => person.until_ended(&sent).await?,
        }
    }
    Ok(())
}

fn random_script(seed: &mut Seed) -> Script {
    const WORDS: [Word; 8] =
        [Word::A, Word::A, Word::B, Word::B, Word::Note, Word::Note, Word::C, Word::P];
    let mut script = Script::default();
    for _ in 0..seed.below(3) {
        let mut step = Vec::new();
        for _ in 0..=seed.below(2) {
            step.extend(seed.pick(&WORDS).copied());
        }
        script.steps.push(step);
    }
    script.long = seed.percent(10);
    script.cut = seed.percent(5);
    script.fails = seed.percent(5);
    script.denied = seed.percent(40);
    script
}
