//! HTTP clients for runners: one for all that have addresses, and one for each that has a socket.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Method, RequestBuilder, redirect};

use crate::conduct::Conduct;
use crate::home::RunnerAddress;
use crate::wire::{WireError, words};

/// A runner answers a connection at once, or not at all.
pub(crate) const CONNECT: Duration = Duration::from_secs(2);

/// Connections are closed before the runner, or something between, gives them up.
const IDLE: Duration = Duration::from_mins(1);

/// Who is asked for at a socket, where there is nobody else.
const NOBODY: &str = "localhost";

/// A client for runners that have addresses: it keeps connections, and follows nobody elsewhere.
///
/// # Errors
/// None can be made in this process.
pub fn client() -> Result<Client, reqwest::Error> {
    builder().tcp_nodelay(true).build()
}

fn of_socket(path: &Path) -> Result<Client, reqwest::Error> {
    builder().unix_socket(path).build()
}

fn builder() -> ClientBuilder {
    Client::builder()
        .no_proxy()
        // Runners speak no TLS, so that no list of authorities has to be read.
        .tls_certs_only([])
        .redirect(redirect::Policy::none())
        .http1_only()
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
}

/// The client of a runner that is reached at a socket: it is bound to that, so it is kept with the runner.
#[derive(Debug, Default)]
pub(crate) struct SocketClient(OnceLock<Client>);

impl SocketClient {
    fn at(&self, path: &Path) -> Result<&Client, WireError> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        let made =
            of_socket(path).map_err(|error| WireError::Unreached(words(error).to_string()))?;
        Ok(self.0.get_or_init(|| made))
    }
}

/// A request to a runner, by `client` if it has an address.
pub(crate) fn request(
    client: &Client,
    conduct: &Conduct,
    address: Option<RunnerAddress<'_>>,
    method: Method,
    path: &str,
) -> Result<RequestBuilder, WireError> {
    match address {
        Some(RunnerAddress::Tcp(address)) => {
            Ok(client.request(method, format!("http://{address}{path}")))
        }
        Some(RunnerAddress::Socket(socket)) => {
            let client = conduct.socket_client().at(socket)?;
            Ok(client.request(method, format!("http://{NOBODY}{path}")))
        }
        None => Err(WireError::Unreached("its runner has no address".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn a_runner_at_a_socket_is_asked_by_a_client_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runner");
        let listener = UnixListener::bind(&path).unwrap();
        let answers = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut heads = Vec::new();
            for _ in 0..2 {
                let mut head = [0; 1024];
                let read = socket.read(&mut head).await.unwrap();
                heads.push(String::from_utf8_lossy(&head[..read]).into_owned());
                let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
                socket.write_all(answer).await.unwrap();
            }
            heads
        };
        let (client, conduct) = (client().unwrap(), Conduct::default());
        let address = Some(RunnerAddress::Socket(&path));
        let asks = async {
            for way in ["/one", "/two"] {
                let asked = request(&client, &conduct, address, Method::GET, way).unwrap();
                assert_eq!(asked.send().await.unwrap().status(), StatusCode::NO_CONTENT);
            }
        };
        // Over one connection, which is kept.
        let (heads, ()) = tokio::join!(answers, asks);
        assert!(heads[0].starts_with("GET /one HTTP/1.1\r\n"), "{heads:?}");
        assert!(heads[1].starts_with("GET /two HTTP/1.1\r\n"), "{heads:?}");
    }

    #[test]
    fn nobody_is_asked_without_an_address() {
        let (client, conduct) = (client().unwrap(), Conduct::default());
        let asked = request(&client, &conduct, None, Method::GET, "/");
        assert!(matches!(asked, Err(WireError::Unreached(_))));
    }
}
