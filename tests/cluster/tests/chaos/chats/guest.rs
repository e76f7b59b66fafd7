//! Somebody whom the owner has let in, wherever they write.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use famulus_cluster_tests::kubectl::{LONG, until};
use famulus_cluster_tests::release::Release;

/// Between two messages of somebody who has been answered.
pub(crate) const PAUSE: Duration = Duration::from_millis(1_500);
const REPORT: &[u8] = b"what was in the report";

/// What came to somebody.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) text: String,
    /// What stands in bold, as codes do.
    pub(crate) bold: Option<String>,
    pub(crate) files: Vec<Vec<u8>>,
}

/// Somebody's program of a messenger.
pub(crate) trait Messenger {
    async fn write(&self, text: &str);
    async fn send_report(&self, caption: &str, bytes: &[u8]);
    /// In order.
    async fn sent(&self) -> Vec<Sent>;
    /// Messages that were written and not heard.
    async fn unheard(&self) -> usize;
    /// What the platform told to a process that died at that moment, and tells to nobody again.
    async fn gone(&self) -> Vec<String>;
}

pub(crate) struct Guest<M> {
    pub(crate) messenger: M,
    /// Messages so far, which are numbered from 1.
    written: usize,
}

impl<M: Messenger> Guest<M> {
    pub(crate) async fn let_in(messenger: M, release: &Release) -> Self {
        let guest = Self::stranger(messenger);
        let code = guest.is_told_a_code().await;
        let (status, said) =
            release.ask(Method::POST, "/v1/pairings", Some(&json!({ "code": code }))).await;
        assert_eq!(status, 200, "{said}");
        guest
    }

    pub(crate) const fn stranger(messenger: M) -> Self {
        Self { messenger, written: 0 }
    }

    pub(crate) async fn is_told_a_code(&self) -> String {
        self.messenger.write("let me in").await;
        until("a stranger is told a code", LONG, async || {
            let sent = self.messenger.sent().await;
            sent.iter().find_map(|one| one.bold.clone()).ok_or_else(|| format!("{sent:?}"))
        })
        .await
    }

    /// Goes on writing for so long.
    pub(crate) async fn writes_for(&mut self, time: Duration) {
        let mut over = pin!(sleep(time));
        loop {
            let pause = self.writes_once().await;
            tokio::select! {
                () = &mut over => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// Goes on writing until so many messages from here on were answered.
    pub(crate) async fn writes_until_answered(&mut self, more: usize) {
        let wanted = self.written + more;
        let begun = Instant::now();
        loop {
            let pause = self.writes_once().await;
            let last = self.last_answered().await;
            if last >= wanted {
                return;
            }
            assert!(begun.elapsed() < LONG, "answered are messages up to {last} of {wanted}");
            sleep(pause).await;
        }
    }

    /// How long to wait with the next: longer the longer no answer comes, since the messages of an outage join
    /// one turn, which may write ten times.
    async fn writes_once(&mut self) -> Duration {
        self.written += 1;
        self.messenger.write(&note(self.written)).await;
        PAUSE * (self.written - self.last_answered().await) as u32
    }

    pub(crate) async fn has_a_file_back(&self) {
        let files = async || {
            let sent = self.messenger.sent().await;
            sent.iter().flat_map(|one| &one.files).filter(|bytes| *bytes == REPORT).count()
        };
        let before = files().await;
        self.messenger.send_report("Send me the file", REPORT).await;
        until("a file comes back", LONG, async || match files().await - before {
            0 => Err(format!("{:?}", self.messenger.sent().await.last())),
            _ => Ok(()),
        })
        .await;
        sleep(PAUSE * 2).await;
        assert_eq!(files().await, before + 1, "it comes once");
    }

    /// Waits for an answer that holds this.
    pub(crate) async fn is_told(&self, words: &str) -> Sent {
        until(&format!("somebody is told {words:?}"), LONG, async || {
            let mut sent = self.messenger.sent().await;
            let place = sent.iter().position(|one| one.text.contains(words));
            place.map(|place| sent.remove(place)).ok_or_else(|| format!("{sent:?}"))
        })
        .await
    }

    /// Each message is answered once, but for as many as went out with an outcome that nobody knows, and for
    /// what is gone.
    pub(crate) async fn was_answered_once(&self, unknown: usize) {
        let answers = self.answers().await;
        let twice: Vec<_> = answers.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "answered more than once: {twice:?}");
        let mut missing: Vec<_> = (1..=self.written).filter(|n| !answers.contains_key(n)).collect();
        let gone = self.messenger.gone().await;
        println!("{} written, {missing:?} missing, {gone:?} gone, {unknown} unknown", self.written);
        missing.retain(|number| !gone.contains(&note(*number)));
        // One answer may be to several messages; without one that is lost, none of them is missing.
        let sent = self.messenger.sent().await;
        assert!(missing.is_empty() || unknown > 0, "never answered: {missing:?} in {sent:#?}");
    }

    /// How often each message was answered, by its number.
    async fn answers(&self) -> BTreeMap<usize, usize> {
        let mut answers = BTreeMap::new();
        for message in self.messenger.sent().await {
            for rest in message.text.split("I will remember: note ").skip(1) {
                let number = rest.split(' ').next().and_then(|number| number.parse().ok());
                *answers.entry(number.unwrap_or_default()).or_default() += 1;
            }
        }
        answers
    }

    async fn last_answered(&self) -> usize {
        self.answers().await.into_keys().last().unwrap_or_default()
    }
}

fn note(number: usize) -> String {
    format!("remember that note {number} is kept")
}
