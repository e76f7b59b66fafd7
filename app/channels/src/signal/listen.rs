//! Listening to the daemon's stream of events, and fetching files.
//!
//! The daemon tells a thing once, and says to Signal that it was delivered before we have it. So each event
//! is stored before the next is read, whoever is to listen no more reads what is on its way, and whoever hears
//! nothing at all looks whether somebody would tell.

use super::client::{AccountError, CallError, Client, Ours};
use super::numbers::Numbers;
use super::read::{Serves, found};
use super::redact::redacted;
use super::wire::Event;
use async_trait::async_trait;
use bytes::Bytes;
use famulus_core::{
    StoreError,
    inbound::ChatKind,
    intake::{
        Account, Arrival, FetchError, Happening, Keep, ListenError, Listener, Press, RemoteFile,
        is_named,
    },
};
use famulus_sse::{Caps, Item, Parser};
use futures::{StreamExt, stream::BoxStream};
use serde_json::{Value, json};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The daemon shows every 15 s that it lives.
const SILENCE: Duration = Duration::from_secs(40);
/// A stream on which nothing happens may be one to which nothing is told any more: an account that went, a
/// daemon that hangs. It is looked at, and renewed.
const RENEWED: Duration = Duration::from_mins(5);
/// An event holds no file.
const CAPS: Caps = Caps { line: 1024 * 1024, event: 1024 * 1024 };
/// Between two tries to store an event, doubling.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks whether an account was linked, and until it is said again that there is none.
const LINKED: Duration = Duration::from_secs(1);
const SAID_AGAIN: Duration = Duration::from_mins(1);
/// What was on its way when somebody was to listen no more has come when nothing came for so long.
const ON_ITS_WAY: Duration = Duration::from_millis(100);
/// Nobody waits longer for what only shows that something was read.
const COURTESY: Duration = Duration::from_secs(5);

pub(super) struct SignalListener {
    client: Arc<Client>,
    serves: Serves,
    numbers: Numbers,
    /// Who says nothing for so long is gone.
    silence: Duration,
    /// Whether it was said that the daemon has no account.
    has_none: AtomicBool,
}

/// An event that is for us.
struct Heard {
    arrival: Arrival,
    from: String,
    timestamp: i64,
    is_direct: bool,
}

impl SignalListener {
    pub(super) fn new(client: Arc<Client>, serves: Serves) -> Self {
        let (numbers, has_none) = (Numbers::default(), AtomicBool::new(false));
        Self { client, serves, numbers, silence: SILENCE, has_none }
    }

    /// Hears until nothing has happened for long.
    async fn hear(&self, keep: &dyn Keep) -> Result<(), ListenError> {
        let ours = self.account_once_linked().await.map_err(|error| ended(&error))?;
        let response = self.client.events(&ours).await.map_err(|error| ended(&error))?;
        keep.heard().await;
        let mut pieces = response.bytes_stream();
        let (mut parser, mut items) = (Parser::new(CAPS), Vec::new());
        let mut happened_at = Instant::now();
        let (mut over, mut is_over) = (pin!(keep.over()), false);
        while happened_at.elapsed() < RENEWED {
            let patience = if is_over { ON_ITS_WAY } else { self.silence };
            let came = tokio::select! {
                came = timeout(patience, pieces.next()) => came,
                () = &mut over, if !is_over => {
                    is_over = true;
                    continue;
                }
            };
            let piece = match came {
                Ok(Some(Ok(piece))) => piece,
                Ok(Some(Err(_)) | None) => return Err(passing("the stream of events broke off")),
                Err(_elapsed) if is_over => return Err(passing("nobody is to listen any more")),
                Err(_elapsed) => return Err(passing("the stream of events is silent")),
            };
            parser.feed(&piece, &mut items).map_err(|error| passing(&error.to_string()))?;
            for item in items.drain(..) {
                let Item::Event(event) = item else { continue };
                happened_at = Instant::now();
                let Some(heard) = self.heard(&ours.id, event.data) else { continue };
                let Heard { arrival, from, timestamp, is_direct } = heard;
                kept(keep, arrival).await?;
                // A courtesy may take long, and what is behind it has no second chance.
                if is_direct && self.serves == Serves::All && !is_over {
                    self.say_read(&from, timestamp).await;
                }
            }
        }
        Ok(())
    }

    /// That there is none is said at once. Whoever was told links one, and waits for it to be heard: so it is
    /// looked for often, and said again each minute.
    async fn account_once_linked(&self) -> Result<Ours, CallError> {
        let begun = Instant::now();
        loop {
            let asked = self.client.account().await;
            let has_none = matches!(asked, Err(CallError::Account(AccountError::None)));
            let was_said = self.has_none.swap(has_none, Ordering::Relaxed);
            if !has_none || !was_said || begun.elapsed() > SAID_AGAIN {
                return asked;
            }
            sleep(LINKED).await;
        }
    }

    fn heard(&self, ours: &str, data: Vec<u8>) -> Option<Heard> {
        let event: Event = match serde_json::from_slice(&data) {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "an event of Signal could not be read");
                lost("unreadable");
                return None;
            }
        };
        if let Some(exception) = &event.exception {
            tracing::warn!(kind = exception.kind, "a message came on Signal that cannot be read");
            lost("undecryptable");
        }
        let found = found(ours, self.serves, event)?;
        let is_direct = found.chat().kind == ChatKind::Direct;
        let (from, timestamp) = (found.from().to_owned(), found.timestamp());
        let arrival = Arrival { key: found.key(), chat: found.chat().id.clone(), body: data };
        Some(Heard { arrival, from, timestamp, is_direct })
    }

    /// Shows the sender that it was taken: only now is it safe with us.
    async fn say_read(&self, to: &str, timestamp: i64) {
        let asked = json!({"recipient": to, "targetTimestamp": timestamp, "type": "read"});
        let told = self.client.call::<Value>("sendReceipt", asked);
        match timeout(COURTESY, told).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a receipt was not sent"),
            Err(_elapsed) => tracing::debug!("a receipt was not sent in time"),
        }
    }
}

#[async_trait]
impl Listener for SignalListener {
    async fn account(&self) -> Result<Account, ListenError> {
        let ours = self.account_once_linked().await.map_err(|error| ended(&error))?;
        Ok(Account { id: ours.id, name: Some(ours.number), link: None })
    }

    async fn listen(&self, _: Option<String>, keep: &dyn Keep) -> ListenError {
        loop {
            if let Err(error) = self.hear(keep).await {
                return error;
            }
        }
    }

    fn tells_once(&self) -> bool {
        true
    }

    fn read(&self, account: &str, body: &[u8]) -> Happening {
        match serde_json::from_slice::<Event>(body) {
            Ok(event) => found(account, self.serves, event)
                .map_or(Happening::Nothing, |found| found.happening(account)),
            Err(error) => {
                tracing::warn!(%error, "an event could not be read");
                Happening::Nothing
            }
        }
    }

    fn redacted(&self, _: &str, body: &[u8]) -> Option<Vec<u8>> {
        redacted(body)
    }

    /// There are no buttons.
    async fn answer_press(&self, _: &Press, _: Option<&str>) -> Result<(), ListenError> {
        Ok(())
    }

    async fn lists(&self, listed: &[String], id: &str) -> Result<bool, ListenError> {
        if is_named(listed, id) {
            return Ok(true);
        }
        let found = self.numbers.are_of(&self.client, listed, id).await;
        found.map_err(|error| ended(&error))
    }

    async fn leave(&self, chat: &str) -> Result<(), ListenError> {
        let asked = json!({"groupId": chat, "delete": true});
        let left = self.client.call::<Value>("quitGroup", asked).await;
        left.map(drop).map_err(|error| ended(&error))
    }

    async fn fetch(
        &self,
        file: &RemoteFile,
    ) -> Result<BoxStream<'static, io::Result<Bytes>>, FetchError> {
        let pieces = self.client.file(&file.handle, file.size).await.map_err(|error| {
            let reason = error.to_string();
            match error {
                CallError::Refused { .. } => {
                    lost("attachment");
                    FetchError::Lasting { reason }
                }
                CallError::Unreached(_)
                | CallError::Unanswered(_)
                | CallError::Other(_)
                | CallError::Account(_) => FetchError::Passing { reason },
            }
        })?;
        Ok(pieces.boxed())
    }
}

/// Nobody tells it again: what cannot be stored now is tried for as long as this process may.
async fn kept(keep: &dyn Keep, arrival: Arrival) -> Result<(), ListenError> {
    let mut pause = FIRST_PAUSE;
    loop {
        match keep.keep(vec![arrival.clone()], None).await {
            Ok(()) => return Ok(()),
            Err(StoreError::Unavailable(error)) => {
                tracing::warn!(%error, "a message of Signal is not stored yet");
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(error @ (StoreError::LeaseLost | StoreError::Refused(_))) => {
                lost("unstored");
                return Err(error.into());
            }
        }
    }
}

/// Counts what the daemon had and we have not.
fn lost(what: &'static str) {
    metrics::counter!("famulus_channel_losses_total", "channel" => super::NAME, "what" => what)
        .increment(1);
}

fn passing(reason: &str) -> ListenError {
    ListenError::Passing { reason: format!("signal-cli: {reason}"), after: None }
}

fn ended(error: &CallError) -> ListenError {
    let lasting = |remedy: &str| ListenError::Lasting {
        reason: format!("signal-cli: {error}"),
        remedy: remedy.to_owned(),
    };
    match error {
        CallError::Unreached(_) | CallError::Unanswered(_) => passing(&error.to_string()),
        CallError::Account(AccountError::None) => ListenError::Passing {
            reason: format!(
                "signal-cli: {error}; link one by `famulus channel link signal`, or register one as \
                 docs/CHANNELS.md says"
            ),
            after: Some(LINKED),
        },
        CallError::Account(AccountError::Several) => {
            lasting("name the number of yours in `channels.signal.account`")
        }
        CallError::Account(AccountError::Other) => {
            lasting("correct `channels.signal.account`, or link it again")
        }
        CallError::Account(AccountError::Nameless) => lasting("link the account again"),
        CallError::Other(_) | CallError::Refused { .. } => lasting(
            "correct `channels.signal.url`; docs/CHANNELS.md says how the daemon is started",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_scripted_signal::Signal;

    struct Nowhere;

    #[async_trait]
    impl Keep for Nowhere {
        async fn keep(&self, _: Vec<Arrival>, _: Option<&str>) -> Result<(), StoreError> {
            Ok(())
        }

        async fn heard(&self) {}
    }

    #[tokio::test]
    async fn whoever_shows_no_sign_of_life_is_asked_anew() {
        let signal = Signal::start().await.unwrap();
        signal.set_keep_alive(Duration::from_millis(100));
        let client = Client::new(signal.base_url().parse().unwrap(), None).unwrap();
        let silence = Duration::from_secs(1);
        let listener =
            SignalListener { silence, ..SignalListener::new(Arc::new(client), Serves::All) };
        let mut listening = std::pin::pin!(listener.listen(None, &Nowhere));
        let heard = timeout(silence * 2, &mut listening).await;
        assert!(heard.is_err(), "signs of life are enough: {heard:?}");
        signal.stall(true);
        let ended = timeout(silence * 2, listening).await.unwrap();
        assert!(
            matches!(&ended, ListenError::Passing { reason, .. } if reason.contains("silent")),
            "{ended:?}"
        );
    }
}
