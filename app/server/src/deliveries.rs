//! Works deliveries: recorded as leaving, handed to the channel, recorded as what came of it.

use crate::channels::elsewhere;
use async_trait::async_trait;
use famulus_agent::Channels;
use famulus_core::{
    crash,
    ids::OutboundId,
    outbound::{Channel, Delivered, SendError},
};
use famulus_errors::chain;
use famulus_queue::{
    Lease,
    worker::{Handler, Outcome, backoff},
};
use famulus_store::{DeliveryRecord, Error, OutboxState, Store, Undelivered};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

/// A channel that takes longer has swallowed the message or not; nobody knows.
const PATIENCE: Duration = Duration::from_mins(2);
/// For so long a message that certainly did not arrive is tried: outages are outlived.
const TRIED: Duration = Duration::from_hours(24);
/// Between two tries: half a second, doubling, up to a minute.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A channel that names a longer time is asked sooner.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// The handler of the delivery class.
pub(crate) struct DeliveryWorker {
    pub(crate) store: Store,
    pub(crate) channels: Channels,
    /// Is told of outcomes that nobody knows.
    pub(crate) unknown: Arc<Notify>,
}

#[async_trait]
impl Handler for DeliveryWorker {
    async fn work(&self, lease: Lease, _cancel: CancellationToken) -> Outcome {
        match self.deliver(&lease).await {
            Ok(()) | Err(Error::LeaseLost) => Outcome::Settled,
            Err(error) => {
                tracing::warn!(outbound.id = %lease.job.id, error = %chain(&error),
                    "a delivery could not be recorded; it is tried again");
                Outcome::Retry { delay: backoff(lease.attempts), blameless: error.is_passing() }
            }
        }
    }
}

impl DeliveryWorker {
    async fn deliver(&self, lease: &Lease) -> Result<(), Error> {
        let id = OutboundId(lease.job.id);
        let Some(record) = self.store.load_delivery(id).await? else {
            return self.store.delivered(&lease.fence, id).await;
        };
        let sent = Try { number: record.attempts + 1, tried_for: record.tried_for };
        let channel = self.channels.get(&record.outbound.to.channel);
        let may_repeat = channel.is_some_and(|channel| channel.capabilities().idempotent)
            || record.may_come_twice
            || record.edits.is_some();
        // Before all else: nobody may take it for one that was not sent.
        if record.state == OutboxState::Sending && !may_repeat {
            let reason = "the worker that sent it ended before the channel's answer was recorded";
            let why = Undelivered::Unknown { reason: reason.into() };
            return self.failed(lease, id, &why).await;
        }
        let Some(channel) = channel else {
            // In the middle of an update another process may have it.
            let error = SendError::NotSent {
                channel: record.outbound.to.channel.clone(),
                reason: "no channel of this name is configured; configure it".to_owned(),
                after: Some(elsewhere(record.tried_for)),
            };
            return self.failed(lease, id, &judged(&error, true, sent)).await;
        };
        self.store.mark_sending(&lease.fence, id).await?;
        let outcome = self.send(lease, channel.as_ref(), &record).await?;
        metrics::counter!("famulus_deliveries_total",
            "channel" => channel.name().to_owned(),
            "outcome" => if outcome.is_ok() { "delivered" } else { "failed" })
        .increment(1);
        let Err(error) = outcome else {
            return self.store.delivered(&lease.fence, id).await;
        };
        tracing::warn!(outbound.id = %id, error = %error, "a message was not delivered");
        let why = judged(&error, may_repeat, sent);
        self.failed(lease, id, &why).await
    }

    async fn failed(&self, lease: &Lease, id: OutboundId, why: &Undelivered) -> Result<(), Error> {
        self.store.delivery_failed(&lease.fence, id, why).await?;
        if matches!(why, Undelivered::Unknown { .. }) {
            self.unknown.notify_one();
        }
        Ok(())
    }

    /// Sends what was not taken yet, piece by piece: each is recorded before the next leaves.
    async fn send(
        &self,
        lease: &Lease,
        channel: &dyn Channel,
        record: &DeliveryRecord,
    ) -> Result<Result<(), SendError>, Error> {
        let message = &record.outbound;
        if let Some(ids) = &record.edits {
            crash::before("delivery.send");
            let edited = timeout(PATIENCE, channel.edit(message, ids)).await.unwrap_or_else(|_| {
                let (channel, reason) = (channel.name().to_owned(), "no answer".to_owned());
                Err(SendError::NotSent { channel, reason, after: None })
            });
            crash::after("delivery.send");
            return Ok(edited);
        }
        let pieces = channel.pieces(message);
        for piece in record.taken.len()..pieces {
            crash::before("delivery.send");
            let sent = timeout(PATIENCE, channel.send(message, piece))
                .await
                .unwrap_or_else(|_| Err(SendError::Unknown { channel: channel.name().to_owned() }));
            crash::after("delivery.send");
            let Delivered { id } = match sent {
                Ok(delivered) => delivered,
                Err(error) => return Ok(Err(error)),
            };
            // Buttons go when what they ask is closed.
            if piece + 1 < pieces || !message.buttons.is_empty() {
                let id = id.unwrap_or_default();
                self.store.piece_taken(&lease.fence, message.id, &id).await?;
            }
        }
        Ok(Ok(()))
    }
}

/// A try to send a message.
#[derive(Clone, Copy, Debug)]
struct Try {
    /// From 1.
    number: i32,
    tried_for: Duration,
}

impl Try {
    fn pause(self) -> Duration {
        let doublings = u32::try_from(self.number.saturating_sub(1)).unwrap_or(0).min(16);
        (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE)
    }
}

/// What becomes of a message that the channel did not say it delivered.
fn judged(error: &SendError, may_repeat: bool, sent: Try) -> Undelivered {
    let reason = error.to_string();
    let again = |after: Option<Duration>| Undelivered::NotSent {
        reason: error.to_string(),
        retry_after: after.map_or_else(|| sent.pause(), |after| after.min(LONGEST_WAIT)),
        is_try: after.is_none(),
    };
    let goes_on = sent.tried_for < TRIED;
    match error {
        SendError::NotSent { after, .. } if goes_on => again(*after),
        SendError::Unknown { .. } if may_repeat && goes_on => again(None),
        SendError::Unknown { .. } => Undelivered::Unknown { reason },
        SendError::NotSent { .. } | SendError::Refused { .. } => Undelivered::Refused { reason },
        SendError::Unreachable { .. } => Undelivered::Unreachable { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_arrived_is_sent_again_only_where_that_harms_nobody() {
        #[derive(Debug, PartialEq)]
        enum Fate {
            Again(Duration),
            /// At the time that the channel named, and it was no try.
            AsTold(Duration),
            Unknown,
            Dead,
            /// Dead, and nothing reaches the chat.
            Closed,
        }
        let check = |error: SendError, may_repeat, tried_for, expected| {
            let fate = match judged(&error, may_repeat, Try { number: 3, tried_for }) {
                Undelivered::NotSent { retry_after, is_try: true, .. } => Fate::Again(retry_after),
                Undelivered::NotSent { retry_after, .. } => Fate::AsTold(retry_after),
                Undelivered::Unknown { .. } => Fate::Unknown,
                Undelivered::Refused { .. } => Fate::Dead,
                Undelivered::Unreachable { .. } => Fate::Closed,
            };
            assert_eq!(fate, expected, "{error} {may_repeat} {tried_for:?}");
        };
        let channel = || "http".to_owned();
        let busy = |after| SendError::NotSent { channel: channel(), reason: "busy".into(), after };
        let unknown = || SendError::Unknown { channel: channel() };
        let refused = || SendError::Refused { channel: channel(), reason: "no".into() };
        let blocked = || SendError::Unreachable { channel: channel(), reason: "no".into() };
        let later = Duration::from_secs(77);
        let (soon, long) = (Duration::from_mins(4), Duration::from_hours(23));
        for may_repeat in [true, false] {
            check(busy(None), may_repeat, soon, Fate::Again(Duration::from_secs(2)));
            check(busy(Some(later)), may_repeat, long, Fate::AsTold(later));
            check(busy(Some(TRIED)), may_repeat, long, Fate::AsTold(LONGEST_WAIT));
            check(busy(None), may_repeat, TRIED, Fate::Dead);
            check(busy(Some(later)), may_repeat, TRIED, Fate::Dead);
            check(refused(), may_repeat, soon, Fate::Dead);
            check(blocked(), may_repeat, soon, Fate::Closed);
        }
        check(unknown(), false, soon, Fate::Unknown);
        check(unknown(), true, long, Fate::Again(Duration::from_secs(2)));
        check(unknown(), true, TRIED, Fate::Unknown);
    }

    #[test]
    fn pauses_grow_to_a_minute() {
        let pause = |number| Try { number, tried_for: Duration::ZERO }.pause();
        assert_eq!(pause(1), Duration::from_millis(500));
        assert_eq!(pause(7), Duration::from_secs(32));
        assert_eq!([pause(8), pause(1_000), pause(i32::MAX)], [LONGEST_PAUSE; 3]);
    }
}
