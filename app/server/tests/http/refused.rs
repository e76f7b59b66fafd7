//! Who is refused before the body is read hears why, also who still writes.

use crate::hostile::{MIB, head, talkative};
use crate::world::{self, Raw};
use std::time::Duration;

const PIECE: usize = 64 * 1024;

#[tokio::test(flavor = "multi_thread")]
async fn who_still_writes_when_it_is_refused_hears_why() {
    world::run(talkative(), async |world| {
        let owner = &world.owner;
        let sent = async |token: &str, bytes: usize| {
            let mut raw = Raw::connect(owner.address).await;
            let head = head(token, "POST", "/chat");
            raw.send(format!("{head}content-length: {bytes}\r\n\r\n")).await;
            for _ in 0..bytes / PIECE {
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert!(
                    raw.send(vec![b' '; PIECE]).await,
                    "the connection ends before it is heard"
                );
            }
            raw.until("}").await
        };
        for _ in 0..5 {
            let answer = sent("unknown", MIB).await;
            assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        }
        // Nobody can be known, for no fault of theirs.
        world.database.execute("alter table token rename to away").await;
        let answer = sent("known-to-nobody-yet", 8 * MIB).await;
        assert!(answer.starts_with("HTTP/1.1 5") && answer.contains("remedy"), "{answer}");
        world.database.execute("alter table away rename to token").await;
        // Who waits for our word to come is not told to.
        let mut raw = Raw::connect(owner.address).await;
        let waits = "expect: 100-continue\r\n";
        raw.send(format!(
            "{}{waits}content-length: {MIB}\r\n\r\n",
            head("unknown", "POST", "/chat")
        ))
        .await;
        let answer = raw.until("}").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        // A stranger's files are not read.
        let mut raw = Raw::connect(owner.address).await;
        let head = head("unknown", "POST", "/chat");
        raw.send(format!("{head}content-length: {}\r\n\r\n", 30 * MIB)).await;
        let answer = raw.rest().await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    })
    .await;
}
