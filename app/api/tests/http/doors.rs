//! Doors: a socket for each plugin, which proves whose a call is.

use crate::{config, runners::bearer, support::with_server};
use famulus_core::runner::Door;
use reqwest::{Client, StatusCode};
use std::{fs, os::unix::net::UnixListener, path::Path, time::Duration};
use tokio::{io::AsyncReadExt as _, net::UnixStream, time::timeout};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(10);

fn door(path: &Path, plugin: &str) -> (Door, CancellationToken) {
    let closed = CancellationToken::new();
    let listener = UnixListener::bind(path).unwrap();
    (Door { plugin: plugin.into(), listener, closed: closed.clone() }, closed)
}

/// What somebody is told who asks for a revision that there is not.
async fn asks(client: &Client, plugin: &str, shown: &str) -> StatusCode {
    let url = format!("http://app/internal/v1/revisions/{}/bundle", "0a".repeat(32));
    let request = client.get(url).bearer_auth(shown);
    let request = request.header("famulus-plugin", plugin).header("famulus-rendered", "1");
    request.send().await.unwrap().status()
}

#[tokio::test]
async fn a_door_proves_whose_a_call_is_and_leads_nowhere_else() {
    with_server(config(), async |world| {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("weather");
        let (opened, closed) = door(&socket, "uid-weather");
        world.doors.send(opened).await.unwrap();
        let client = Client::builder().no_proxy().tls_certs_only([]).unix_socket(&*socket);
        let client = client.build().unwrap();
        let (right, other) = (bearer("weather"), bearer("mail"));
        assert_eq!(asks(&client, "uid-weather", &right).await, StatusCode::NOT_FOUND);
        // Neither the bearer of another plugin nor its name counts here.
        assert_eq!(asks(&client, "uid-mail", &other).await, StatusCode::UNAUTHORIZED);
        assert_eq!(asks(&client, "uid-weather", &other).await, StatusCode::UNAUTHORIZED);
        let ping = client.get("http://app/internal/v1/ping").send().await.unwrap();
        assert_eq!(ping.status(), StatusCode::NO_CONTENT);
        // Nothing of people is served.
        let me = client.get("http://app/v1/me").send().await.unwrap();
        assert_eq!(me.status(), StatusCode::UNAUTHORIZED);

        // Whoever is inside when it is closed is let out, and nobody comes in any more.
        let mut inside = UnixStream::connect(&socket).await.unwrap();
        closed.cancel();
        let ended = timeout(PATIENCE, inside.read(&mut [0; 16])).await.unwrap();
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
        let refused = timeout(PATIENCE, async {
            while UnixStream::connect(&socket).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        refused.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_door_that_is_held_open_takes_nothing_from_another() {
    with_server(config(), async |world| {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (greedy, _one) = door(&path("greedy"), "uid-greedy");
        let (modest, _other) = door(&path("modest"), "uid-modest");
        world.doors.send(greedy).await.unwrap();
        world.doors.send(modest).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..64 {
            held.push(UnixStream::connect(path("greedy")).await.unwrap());
        }
        let client = Client::builder().no_proxy().tls_certs_only([]).unix_socket(path("modest"));
        let client = client.build().unwrap();
        let answered = timeout(PATIENCE, asks(&client, "uid-modest", &bearer("modest"))).await;
        assert_eq!(answered.unwrap(), StatusCode::NOT_FOUND);
        drop(held);
        fs::remove_file(path("greedy")).unwrap();
    })
    .await;
}
