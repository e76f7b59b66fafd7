//! Works deliveries: recorded as leaving, handed to the channel, recorded as what came of it.

use async_trait::async_trait;
use famulus_agent::Channels;
use famulus_core::{crash, ids::OutboundId, outbound::SendError};
use famulus_errors::chain;
use famulus_queue::{
    Lease,
    worker::{Handler, Outcome, backoff},
};
use famulus_store::{Error, OutboxState, Store, Undelivered};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A channel that takes longer has swallowed the message or not; nobody knows.
const PATIENCE: Duration = Duration::from_mins(2);
/// Tries of a message that certainly did not arrive.
const TRIES: i32 = 12;

/// The handler of the delivery class.
pub(crate) struct DeliveryWorker {
    pub(crate) store: Store,
    pub(crate) channels: Channels,
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
        let Some(channel) = self.channels.get(&record.outbound.to.channel) else {
            let reason = format!(
                "no channel named `{}` is configured; configure it, then retry",
                record.outbound.to.channel
            );
            let why = Undelivered::Refused { reason };
            return self.store.delivery_failed(&lease.fence, id, &why).await;
        };
        if record.state == OutboxState::Sending && !channel.capabilities().idempotent {
            let reason = "the worker that sent it ended before the channel's answer was recorded";
            let why = Undelivered::Unknown { reason: reason.into() };
            return self.store.delivery_failed(&lease.fence, id, &why).await;
        }
        self.store.mark_sending(&lease.fence, id).await?;
        crash::before("delivery.send");
        let sent = timeout(PATIENCE, channel.send(&record.outbound))
            .await
            .unwrap_or_else(|_| Err(SendError::Unknown { channel: channel.name().to_owned() }));
        crash::after("delivery.send");
        metrics::counter!("famulus_deliveries_total",
            "channel" => channel.name().to_owned(),
            "outcome" => if sent.is_ok() { "delivered" } else { "failed" })
        .increment(1);
        let Err(error) = sent else {
            return self.store.delivered(&lease.fence, id).await;
        };
        tracing::warn!(outbound.id = %id, error = %error, "a message was not delivered");
        let why = judged(&error, channel.capabilities().idempotent, record.attempts + 1);
        self.store.delivery_failed(&lease.fence, id, &why).await
    }
}

/// What becomes of a message that the channel did not say it delivered, after so many tries.
fn judged(error: &SendError, idempotent: bool, tries: i32) -> Undelivered {
    let reason = error.to_string();
    let retry_after = backoff(tries);
    match error {
        SendError::NotSent { after, .. } if tries < TRIES => {
            Undelivered::NotSent { reason, retry_after: after.unwrap_or(retry_after) }
        }
        SendError::Unknown { .. } if idempotent && tries < TRIES => {
            Undelivered::NotSent { reason, retry_after }
        }
        SendError::Unknown { .. } => Undelivered::Unknown { reason },
        SendError::NotSent { .. } | SendError::Refused { .. } => Undelivered::Refused { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_arrived_is_sent_again_only_where_the_channel_knows_it() {
        #[derive(Debug, PartialEq)]
        enum Fate {
            Again(Duration),
            Unknown,
            Dead,
        }
        let check = |error: SendError, idempotent, tries, expected| {
            let fate = match judged(&error, idempotent, tries) {
                Undelivered::NotSent { retry_after, .. } => Fate::Again(retry_after),
                Undelivered::Unknown { .. } => Fate::Unknown,
                Undelivered::Refused { .. } => Fate::Dead,
            };
            assert_eq!(fate, expected, "{error} {idempotent} {tries}");
        };
        let channel = || "http".to_owned();
        let busy = |after| SendError::NotSent { channel: channel(), reason: "busy".into(), after };
        let unknown = || SendError::Unknown { channel: channel() };
        let refused = || SendError::Refused { channel: channel(), reason: "no".into() };
        let later = Duration::from_secs(77);
        for idempotent in [true, false] {
            check(busy(None), idempotent, 1, Fate::Again(backoff(1)));
            check(busy(Some(later)), idempotent, TRIES - 1, Fate::Again(later));
            check(busy(None), idempotent, TRIES, Fate::Dead);
            check(refused(), idempotent, 1, Fate::Dead);
        }
        check(unknown(), false, 1, Fate::Unknown);
        check(unknown(), true, 1, Fate::Again(backoff(1)));
        check(unknown(), true, TRIES, Fate::Unknown);
    }
}
