//! Over a platform that hangs up as it pleases.

use super::*;
use famulus_core::{StoreError, ids::OutboundId};
use parking_lot::Mutex;
use tokio::net::TcpListener;

#[derive(Default)]
struct Kept(Mutex<Vec<(Arrival, String)>>);

#[async_trait]
impl Keep for Kept {
    async fn keep(&self, arrivals: Vec<Arrival>, place: Option<&str>) -> Result<(), StoreError> {
        let place = place.unwrap_or_default();
        self.0.lock().extend(arrivals.into_iter().map(|one| (one, place.to_owned())));
        Ok(())
    }

    async fn heard(&self) {}
}

/// Answers one connection with lines, and hangs up. Returns what it was asked.
async fn answer(platform: &TcpListener, lines: &str) -> Value {
    let (peer, _) = platform.accept().await.unwrap();
    let mut peer = BufStream::new(peer);
    let mut asked = String::new();
    peer.read_line(&mut asked).await.unwrap();
    peer.write_all(lines.as_bytes()).await.unwrap();
    peer.flush().await.unwrap();
    serde_json::from_str(&asked).unwrap()
}

async fn platform() -> (TcpListener, Lines) {
    let platform = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config {
        allow: vec!["7".to_owned()],
        address: Some(platform.local_addr().unwrap()),
        ..Config::default()
    };
    assert_eq!(config.rules().allow, ["7"]);
    (platform, Lines::new(&config).unwrap())
}

#[tokio::test]
async fn what_is_told_is_kept_with_the_place_behind_it_and_read() {
    let (platform, channel) = platform().await;
    let told =
        "{\"number\": 5, \"at\": 60, \"by\": \"7\", \"name\": \"Ada\", \"text\": \"hello\"}\n";
    let kept = Kept::default();
    let heard = channel.listen(Some("4".to_owned()), &kept);
    let (ended, asked) = tokio::join!(heard, answer(&platform, told));
    assert!(matches!(ended, ListenError::Passing { .. }), "{ended}");
    assert_eq!(asked, json!({"after": "4"}));
    let kept = kept.0.lock();
    let [(arrival, place)] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!((arrival.key.as_str(), place.as_str()), ("5", "5"));
    let Happening::Wrote(written) = channel.read("us", &arrival.body) else { panic!() };
    assert_eq!((&*written.from.id, &*written.text, &*written.reply.chat), ("7", "hello", "7"));
    assert_eq!(channel.read("us", b"{}"), Happening::Nothing);
    assert_eq!(channel.redacted("us", &arrival.body), None);
    let assigns = told.replace("hello", "/configure weather api_key s3cret");
    let stored = channel.redacted("us", assigns.as_bytes()).unwrap();
    assert!(stored.is_empty(), "nothing of it is stored unless the channel says what may be");
    assert_eq!(channel.read("us", &stored), Happening::Nothing);
}

#[tokio::test]
async fn what_is_sent_was_taken_or_may_have_been_or_was_not() {
    let (platform, channel) = platform().await;
    let message = Outbound {
        id: OutboundId::new(),
        person: None,
        conversation: None,
        to: Address {
            channel: NAME.to_owned(),
            account: "us".to_owned(),
            chat: "7".to_owned(),
            thread: None,
            reply_to: None,
        },
        markdown: "**Hello.**".to_owned(),
        attachments: Vec::new(),
        buttons: Vec::new(),
    };
    let sent = channel.send(&message, 0);
    let (sent, asked) = tokio::join!(sent, answer(&platform, "{\"taken\": 12}\n"));
    assert_eq!(sent.unwrap().id.as_deref(), Some("12"));
    assert_eq!(asked, json!({"to": "7", "text": "Hello."}));
    let (cut, _) = tokio::join!(channel.send(&message, 0), answer(&platform, ""));
    assert!(matches!(cut, Err(SendError::Unknown { .. })), "{cut:?}");
    drop(platform);
    let away = channel.send(&message, 0).await;
    assert!(matches!(away, Err(SendError::NotSent { .. })), "{away:?}");
}
