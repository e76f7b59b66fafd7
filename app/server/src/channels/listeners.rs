//! One process listens to an account at a time; the others stand by.
//!
//! ```text
//! account? ─► take it (a lease of seconds) ─► listen and keep, the lease renewed beside it
//!     ▲            └─ somebody has it: look again each second      │
//!     └───────── it failed: said, and tried again later ◄──────────┘
//! ```
//!
//! A platform that tells a thing once gives it to all who listen. Whoever is to listen no more hears beside the
//! next for a moment: what it is told while it hangs up, the other has. Where nobody is next, that is lost.
//!
//! What must not be stored is obeyed before the rest is kept: after a crash between the two the platform tells
//! it again, or nobody was answered.

use super::Intake;
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    intake::{Account, Arrival, Happening, Keep, ListenError, Listener},
};
use famulus_errors::chain;
use famulus_store::{Error, Listening, Store};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Another process takes over so long after the one that listened has died; a turn's worker may be
/// missed for a shorter time.
const LONGEST_LEASE: Duration = Duration::from_secs(8);
/// A lease is renewed so often in its time.
const RENEWED: u32 = 4;
/// Between two looks whether an account is free.
const LOOK: Duration = Duration::from_secs(1);
/// Whoever ends may take so long to keep what it was told and nobody will be told again.
const LAST: Duration = Duration::from_secs(5);
/// Until the next listens, if there is one: it looks, and is put through.
const BESIDE: Duration = LOOK.saturating_add(Duration::from_millis(500));
/// Others may hold the account, such as one that stands still: its lease ends without a word, too.
const LEAVING: Duration = Duration::from_secs(1);
/// After a failure: a second, doubling, up to a minute; what somebody has to mend is looked at again then.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Until what must not be stored is obeyed; nothing else of the account is heard meanwhile.
const AT_ONCE: Duration = Duration::from_mins(1);

struct Kept<'a> {
    store: &'a Store,
    listening: &'a Listening,
    listener: &'a dyn Listener,
    intake: &'a Intake,
    /// Whether it was said that the platform answers.
    said: AtomicBool,
    /// Another process listens, or this one ends.
    over: CancellationToken,
}

#[async_trait]
impl Keep for Kept<'_> {
    async fn keep(&self, arrivals: Vec<Arrival>, place: Option<&str>) -> Result<(), StoreError> {
        let mut kept = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            match self.listener.redacted(&self.listening.account, &arrival.body) {
                None => kept.push(arrival),
                Some(_) if self.is_obeyed(&arrival).await? => {}
                Some(body) => kept.push(Arrival { body, ..arrival }),
            }
        }
        self.store.keep_arrivals(self.listening, &kept, place).await
    }

    async fn over(&self) {
        self.over.cancelled().await;
    }

    async fn heard(&self) {
        if self.said.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.store.account_is(self.listening, None).await {
            self.said.store(false, Ordering::Relaxed);
            tracing::debug!(error = %chain(&error), "that all is well is said after the next poll");
        }
    }
}

impl Kept<'_> {
    /// Whether it was a command that is done, so that nothing of it is left to be stored.
    async fn is_obeyed(&self, arrival: &Arrival) -> Result<bool, StoreError> {
        let Listening { channel, account, .. } = self.listening;
        let Some(door) = self.intake.door(channel, account) else { return Ok(false) };
        let Happening::Wrote(written) = self.listener.read(account, &arrival.body) else {
            return Ok(false);
        };
        let obeyed = self.intake.arrivals.configure(&door, &written, self.listener);
        match timeout(AT_ONCE, obeyed).await {
            Ok(obeyed) => obeyed,
            Err(_elapsed) => {
                tracing::warn!(channel, "a key of a plugin was not set in time");
                Ok(false)
            }
        }
    }
}

/// Listens for as long as the process runs. A channel that fails stops nothing else.
pub(crate) async fn listen(
    store: Store,
    channel: String,
    listener: Arc<dyn Listener>,
    intake: Intake,
    shutdown: CancellationToken,
) {
    let mut failures = 0;
    // Known from the first answer on: whoever stands by need not ask the platform each second.
    let mut account = None;
    let hearing = Hearing { listener: listener.as_ref(), intake: &intake };
    while !shutdown.is_cancelled() {
        let begun = Instant::now();
        let heard = once(&store, &channel, &mut account, hearing, &shutdown).await;
        let pause = match heard {
            Ok(()) => {
                failures = 0;
                LOOK
            }
            Err(error) => {
                // What went well for long does not stand in one row with what failed before.
                failures = if begun.elapsed() > LONGEST_PAUSE { 1 } else { failures + 1 };
                tracing::warn!(channel, error = %chain(&error), "nothing is heard there now");
                if account.is_none() {
                    // Which account it is was not known yet, or is asked again.
                    let _it_is_logged = store.channel_is_down(&channel, &error.to_string()).await;
                }
                pause_after(&error, failures)
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

fn pause_after(error: &ListenError, failures: u32) -> Duration {
    let doubled = FIRST_PAUSE * 2_u32.saturating_pow(failures.saturating_sub(1).min(6));
    match error {
        ListenError::Passing { after: Some(after), .. } => (*after).min(LONGEST_PAUSE),
        ListenError::Lasting { .. } => LONGEST_PAUSE,
        ListenError::Passing { .. } | ListenError::Store(_) => doubled.min(LONGEST_PAUSE),
    }
}

/// Who hears, and who takes it in.
#[derive(Clone, Copy)]
struct Hearing<'a> {
    listener: &'a dyn Listener,
    intake: &'a Intake,
}

/// Listens until it fails, or the account is another's.
async fn once(
    store: &Store,
    channel: &str,
    known: &mut Option<Account>,
    hearing: Hearing<'_>,
    shutdown: &CancellationToken,
) -> Result<(), ListenError> {
    let Hearing { listener, intake } = hearing;
    let lease = store.queue.lease.min(LONGEST_LEASE);
    let taking = async {
        let account = match known.take() {
            Some(account) => account,
            None => listener.account().await?,
        };
        let taken = store.take_account(channel, &account, lease).await.map_err(StoreError::from)?;
        if taken.is_none() {
            *known = Some(account);
        }
        Ok::<_, ListenError>(taken)
    };
    let taken = tokio::select! {
        taken = taking => taken?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let Some(listening) = taken else { return Ok(()) };
    tracing::info!(channel, account = listening.account, "this process listens");
    let (said, over) = (AtomicBool::new(false), CancellationToken::new());
    let kept = Kept { store, listening: &listening, listener, intake, said, over: over.clone() };
    let error = {
        let mut hearing = pin!(listener.listen(listening.place.clone(), &kept));
        let error = tokio::select! {
            error = &mut hearing => Some(error),
            () = lost(store, &listening, lease, listener.tells_once()) => None,
            () = shutdown.cancelled() => None,
        };
        if error.is_none() && listener.tells_once() {
            let hands_over = async {
                leave(store, &listening).await;
                sleep(BESIDE).await;
                over.cancel();
                shutdown.cancelled().await;
                sleep(LAST.saturating_sub(BESIDE)).await;
            };
            tokio::select! {
                _ended = &mut hearing => {}
                () = hands_over => {}
            }
        }
        error
        // What it was keeping, and had not kept, ends here: where there is a place, that holds the account.
    };
    if let Some(error) = &error {
        let said = error.to_string();
        let _it_is_logged_too = store.account_is(&listening, Some(&said)).await;
    }
    leave(store, &listening).await;
    error.map_or(Ok(()), Err)
}

/// Whoever stands by need not wait for the lease's end.
async fn leave(store: &Store, listening: &Listening) {
    let channel = &listening.channel;
    match timeout(LEAVING, store.leave_account(listening)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(channel, error = %chain(&error), "an account is free when its lease ends");
        }
        Err(_late) => tracing::debug!(channel, "an account is free when its lease ends"),
    }
}

/// Renews the lease until another has it. One that can no longer be known to hold is as good as lost, unless
/// things are told once: then two may listen, and nobody may not.
async fn lost(store: &Store, listening: &Listening, lease: Duration, tells_once: bool) {
    let renew = lease / RENEWED;
    let mut held_at = Instant::now();
    loop {
        sleep(renew).await;
        let asked_at = Instant::now();
        match store.hold_account(listening, lease).await {
            Ok(()) => held_at = asked_at,
            Err(Error::LeaseLost) => return,
            Err(error) => tracing::debug!(error = %chain(&error), "a lease was not renewed"),
        }
        if !tells_once && held_at.elapsed() + renew > lease {
            return;
        }
    }
}
