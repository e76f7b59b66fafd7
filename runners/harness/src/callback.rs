//! Results that go to the app by themselves.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode, header};
use famulus_protocol::{
    CALL_TOKEN_HEADER, CallResult, Callback, Delivery, Failure, Outcome, Reason, VERSION,
};
use tokio::time::{sleep, timeout};

use crate::address::Address;
use crate::bearer::Bearer;
use crate::exchange::{exchange, sign};

/// How often a callback is tried while the app does not answer.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// After the first failure; doubles.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// For one attempt.
    pub attempt: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_mins(1),
            attempt: Duration::from_secs(15),
        }
    }
}

pub(crate) struct CallbackSender {
    bearer: Bearer,
    retry: RetryPolicy,
}

/// What became of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// The app has it, and acknowledges it.
    Accepted,
    /// It was recorded before, or nobody wants it: nobody will acknowledge it.
    Unwanted,
    /// It cannot be delivered, and waits to be fetched.
    Undeliverable,
}

/// What one attempt came to.
enum Attempt {
    Accepted,
    Unwanted,
    TooLarge,
    Failed(String),
}

impl CallbackSender {
    pub(crate) fn new(bearer: Bearer, retry: RetryPolicy) -> Self {
        Self { bearer, retry }
    }

    /// Posts the result until the app has it or does not want it. One that is too large for the app is
    /// replaced by the word that it is.
    pub(crate) async fn deliver(
        &self,
        callback: &Callback,
        plugin: String,
        result: CallResult,
    ) -> Delivered {
        let call = result.call.clone();
        let Some(address) = Address::parse(&callback.url) else {
            tracing::error!(call.id = %call, "a callback is neither a plain http URL nor a socket's: its result waits to be fetched");
            return Delivered::Undeliverable;
        };
        let mut delivery = Delivery { version: VERSION, plugin, result };
        let mut body = body(&delivery);
        let mut is_replaced = false;
        let mut pause = self.retry.first_pause;
        loop {
            let attempt = self.attempt(&address, &callback.token, body.clone());
            let attempt = timeout(self.retry.attempt, attempt);
            match attempt.await.unwrap_or_else(|_| Attempt::Failed("no answer in time".to_owned()))
            {
                Attempt::Accepted => return Delivered::Accepted,
                Attempt::Unwanted => {
                    tracing::info!(call.id = %call, "a result was delivered before, or is not wanted");
                    return Delivered::Unwanted;
                }
                Attempt::TooLarge if is_replaced => {
                    tracing::error!(call.id = %call, "the app takes no result of this call, however small");
                    return Delivered::Undeliverable;
                }
                Attempt::TooLarge => {
                    tracing::warn!(call.id = %call, bytes = body.len(), "a result is too large for the app");
                    replace(&mut delivery.result, body.len());
                    (body, is_replaced) = (self::body(&delivery), true);
                    continue;
                }
                Attempt::Failed(why) => {
                    tracing::warn!(call.id = %call, why, "a result was not accepted: trying again");
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(self.retry.longest_pause);
        }
    }

    async fn attempt(&self, address: &Address, token: &str, body: Bytes) -> Attempt {
        match self.post(address, token, body).await {
            Ok(status) if status.is_success() => Attempt::Accepted,
            Ok(StatusCode::GONE) => Attempt::Unwanted,
            Ok(StatusCode::PAYLOAD_TOO_LARGE) => Attempt::TooLarge,
            Ok(status) => Attempt::Failed(format!("the app answered {status}")),
            Err(why) => Attempt::Failed(why),
        }
    }

    async fn post(
        &self,
        address: &Address,
        token: &str,
        body: Bytes,
    ) -> Result<StatusCode, String> {
        let credentials = self.bearer.read().map_err(|error| format!("no bearer: {error}"))?;
        let request = Request::post(&address.path)
            .header(header::HOST, &address.authority)
            .header(CALL_TOKEN_HEADER, token)
            .header(header::CONTENT_TYPE, "application/json");
        let request = sign(request, &credentials).body(Body::from(body));
        let request = request.map_err(|error| error.to_string())?;
        exchange(address, request, async |response| Ok(response.status())).await
    }
}

fn body(delivery: &Delivery) -> Bytes {
    // A struct of texts, numbers and lists always serialises.
    Bytes::from(serde_json::to_vec(delivery).unwrap_or_default())
}

/// What is left of a result that the app does not take: its files, and why there is no more.
fn replace(result: &mut CallResult, bytes: usize) {
    for run in &mut result.runs {
        let message = format!(
            "the tool has run, and what it did stays done; its output is lost, because the result of \
             the call has {bytes} bytes, more than the app takes: ask for less at once, or have the \
             tool leave files"
        );
        run.outcome = Outcome::Failed(Failure { reason: Reason::Runner, message });
        run.notes.clear();
    }
}
