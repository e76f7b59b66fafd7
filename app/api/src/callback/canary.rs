//! A port that everybody may reach, and no sandbox can: if one does, its network is not closed.

use famulus_lifecycle::boxed;
use std::time::Duration;
use tokio::{io::AsyncWriteExt as _, net::TcpListener};
use tokio_util::sync::CancellationToken;

/// What it says to whoever comes, before it hangs up.
const SAYS: &[u8] = b"famulus\n";
/// After an error of `accept`, which is nearly always a lack of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Greets and hangs up until the token ends. One at a time: a greeting fits every socket's buffer.
#[boxed]
pub async fn canary(listener: TcpListener, shutdown: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((mut socket, peer)) => {
                if let Err(error) = socket.write_all(SAYS).await {
                    tracing::debug!(%error, %peer, "a connection to the canary broke off");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the canary could not accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}
