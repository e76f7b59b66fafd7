//! Handing a message to the caller's webhook, or leaving it in the conversation.

use crate::http::NAME;
use async_trait::async_trait;
use famulus_core::{
    ids::{ConversationId, OutboundId},
    inbound::Address,
    outbound::{Capabilities, Channel, Delivered, Outbound, ReplyRule, SendError},
};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{Response, StatusCode, header::RETRY_AFTER, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::time::Duration;
use url::Url;

/// A webhook that cannot be connected to within this time is not there.
const CONNECT: Duration = Duration::from_secs(5);
/// A webhook only takes the message; what it does with it happens later.
const ANSWER: Duration = Duration::from_secs(30);

/// The section `[channels.http]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where replies are posted to; none leaves them in the conversation.
    pub webhook_url: Option<Url>,
    /// Signs what is posted, so that the receiver knows who sent it.
    pub webhook_secret: Option<SecretString>,
}

/// The channel could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(
        "`channels.http.webhook_url` is set without `channels.http.webhook_secret`; set a secret of at least 16 characters, with which the receiver checks each message"
    )]
    NoSecret,
    #[error("`channels.http.webhook_url` is not an http or https address without a password in it")]
    Address,
    #[error(
        "`channels.telegram.base_url` is not an http or https address without a password in it"
    )]
    TelegramAddress,
    #[error(
        "`channels.telegram.allow` holds `{0}`; write user ids, which are numbers, or `*` for everybody"
    )]
    TelegramAllow(String),
    #[error("`channels.signal.url` is not an http or https address without a password in it")]
    SignalAddress,
    #[error(
        "`channels.signal.allow` holds `{0}`; write account ids, as `famulus people` shows them, numbers with their country, such as +491701234567, or `*` for everybody"
    )]
    SignalAllow(String),
    #[error("the HTTP client of a channel could not be set up")]
    Client(#[source] reqwest::Error),
}

/// The channel named `http`.
pub struct HttpChannel {
    webhook: Option<Webhook>,
}

struct Webhook {
    client: reqwest::Client,
    url: Url,
    secret: SecretString,
}

/// What a webhook receives.
#[derive(Serialize)]
struct Message<'a> {
    id: OutboundId,
    conversation_id: Option<ConversationId>,
    to: &'a Address,
    markdown: &'a str,
}

impl HttpChannel {
    /// Reads the section; without a webhook nothing is set up.
    pub fn new(config: Config) -> Result<Self, SetupError> {
        let Config { webhook_url, webhook_secret } = config;
        let Some(url) = webhook_url else { return Ok(Self { webhook: None }) };
        let plain = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none();
        if !plain {
            return Err(SetupError::Address);
        }
        let secret = webhook_secret
            .filter(|secret| secret.expose_secret().len() >= 16)
            .ok_or(SetupError::NoSecret)?;
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("famulus/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(SetupError::Client)?;
        Ok(Self { webhook: Some(Webhook { client, url, secret }) })
    }
}

#[async_trait]
impl Channel for HttpChannel {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            limit: None,
            attachments: false,
            threads: false,
            idempotent: true,
            reply: if self.webhook.is_some() { ReplyRule::Text } else { ReplyRule::Kept },
        }
    }

    async fn send(&self, message: &Outbound, _piece: usize) -> Result<Delivered, SendError> {
        if let Some(webhook) = &self.webhook {
            webhook.post(message).await?;
        }
        Ok(Delivered::default())
    }
}

impl Webhook {
    async fn post(&self, message: &Outbound) -> Result<(), SendError> {
        let body = serde_json::to_vec(&Message {
            id: message.id,
            conversation_id: message.conversation,
            to: &message.to,
            markdown: &message.markdown,
        })
        .map_err(|error| refused(error.to_string()))?;
        let signature = sign(self.secret.expose_secret(), &body);
        let answer = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .header("idempotency-key", message.id.to_string())
            .header("x-famulus-signature", signature)
            .body(body)
            .send()
            .await;
        match answer {
            Ok(response) => judge(&response),
            // A receiver that ignores repeats may be asked again, whether or not it got the message.
            Err(error) => Err(not_sent(reason(&error), None)),
        }
    }
}

/// Hex of the HMAC-SHA-256 of the body, as the header carries it.
fn sign(secret: &str, body: &[u8]) -> String {
    // A key of any length makes an HMAC.
    let digest = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map(|mut mac| {
        mac.update(body);
        hex::encode(mac.finalize().into_bytes())
    });
    format!("sha256={}", digest.unwrap_or_default())
}

fn judge(response: &Response) -> Result<(), SendError> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let reason = format!("the webhook answered {status}");
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            Err(not_sent(reason, wait(response)))
        }
        other if other.is_server_error() => Err(not_sent(reason, wait(response))),
        other if other.is_redirection() => Err(refused(format!(
            "{reason}; redirects are not followed: write the final address into `channels.http.webhook_url`"
        ))),
        _ => Err(refused(reason)),
    }
}

/// Seconds only: a date would have to trust the other side's clock.
fn wait(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        "the webhook did not answer in time".to_owned()
    } else if error.is_connect() {
        "the webhook cannot be reached".to_owned()
    } else {
        "the webhook broke the connection off".to_owned()
    }
}

fn not_sent(reason: String, after: Option<Duration>) -> SendError {
    SendError::NotSent { channel: NAME.to_owned(), reason, after }
}

fn refused(reason: String) -> SendError {
    SendError::Refused { channel: NAME.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::ids::PersonId;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    fn message() -> Outbound {
        Outbound {
            id: OutboundId::new(),
            person: Some(PersonId::new()),
            conversation: Some(ConversationId::new()),
            to: Address {
                channel: NAME.into(),
                account: "a".into(),
                chat: "c".into(),
                thread: None,
                reply_to: None,
            },
            markdown: "hello".into(),
            buttons: Vec::new(),
            attachments: Vec::new(),
        }
    }

    fn channel(url: &str) -> HttpChannel {
        HttpChannel::new(Config {
            webhook_url: Some(url.parse().unwrap()),
            webhook_secret: Some("a secret of some length".into()),
        })
        .unwrap()
    }

    /// Answers one request and returns what was received.
    async fn once(listener: TcpListener, answer: &str) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = stream.read(&mut buffer).await.unwrap();
            received.extend_from_slice(&buffer[..count]);
            if count == 0 || received.ends_with(b"}") {
                break;
            }
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(received).unwrap()
    }

    async fn deliver(answer: &str) -> (Result<Delivered, SendError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let channel = channel(&url);
        let message = message();
        tokio::join!(channel.send(&message, 0), once(listener, answer))
    }

    #[tokio::test]
    async fn an_answer_decides_what_becomes_of_the_message() {
        let (sent, received) = deliver("HTTP/1.1 204 No Content\r\n\r\n").await;
        assert!(sent.is_ok());
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        let header = |name: &str| {
            let mut values = head.lines().filter_map(|line| line.split_once(": "));
            values.find_map(|(named, value)| (named == name).then(|| value.to_owned()))
        };
        assert_eq!(header("content-length"), Some(body.len().to_string()), "the body is whole");
        let signature = sign("a secret of some length", body.as_bytes());
        assert_eq!(header("x-famulus-signature"), Some(signature), "{head}");
        assert!(header("idempotency-key").is_some(), "{head}");

        let check = |answer: &'static str, expected: fn(&SendError) -> bool| async move {
            let (sent, _) = deliver(answer).await;
            assert!(expected(&sent.unwrap_err()), "{answer}");
        };
        check(
            "HTTP/1.1 429 Slow\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n",
            |e| matches!(e, SendError::NotSent { after: Some(after), .. } if after.as_secs() == 7),
        )
        .await;
        check("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", |e| {
            matches!(e, SendError::NotSent { after: None, .. })
        })
        .await;
        check("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", |e| {
            matches!(e, SendError::Refused { .. })
        })
        .await;
        check("HTTP/1.1 302 No\r\nLocation: /x\r\ncontent-length: 0\r\n\r\n", |e| {
            matches!(e, SendError::Refused { .. })
        })
        .await;
    }

    #[tokio::test]
    async fn nobody_there_is_not_sent_and_no_webhook_is_the_mailbox() {
        // Held, and nobody listens.
        let nobody = tokio::net::TcpSocket::new_v4().unwrap();
        nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!("http://{}/", nobody.local_addr().unwrap());
        let sent = channel(&url).send(&message(), 0).await;
        assert!(matches!(sent, Err(SendError::NotSent { .. })));
        let silent = HttpChannel::new(Config::default()).unwrap();
        assert!(silent.send(&message(), 0).await.is_ok());
    }

    #[test]
    fn a_webhook_needs_a_secret_and_a_plain_address() {
        let check = |url: &str, secret: Option<&str>| {
            HttpChannel::new(Config {
                webhook_url: Some(url.parse().unwrap()),
                webhook_secret: secret.map(Into::into),
            })
            .err()
        };
        let long = Some("a secret of some length");
        assert!(matches!(check("http://h/", None), Some(SetupError::NoSecret)));
        assert!(matches!(check("http://h/", Some("short")), Some(SetupError::NoSecret)));
        assert!(matches!(check("http://u:p@h/", long), Some(SetupError::Address)));
        assert!(matches!(check("file:///x", long), Some(SetupError::Address)));
    }

    #[test]
    fn the_signature_is_the_one_of_the_standard() {
        // RFC 4231, test case 2.
        assert_eq!(
            sign("Jefe", b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
