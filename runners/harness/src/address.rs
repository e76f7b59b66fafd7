//! Where a request of a runner goes.

use std::io;
use std::path::PathBuf;

use axum::http::Uri;
use axum::http::uri::Scheme;
use tokio::net::{TcpStream, UnixStream};
use tokio_util::either::Either;

use crate::endpoint::Connection;

/// How the URL of a socket begins. It goes on with the socket's path and `:` before the path of the
/// request, as in `unix:/run/app:/v1/ping`.
const UNIX: &str = "unix:";

/// The host of a request to a socket, which nobody looks up.
const NOBODY: &str = "localhost";

/// The parts of a plain `http` URL, or of one that names a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    to: To,
    /// Host and port as they were written.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) path: String,
}

/// What is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum To {
    Host { name: String, port: u16 },
    Socket(PathBuf),
}

impl Address {
    /// `None` for everything else. The app's door is inside the cluster or the machine and speaks no TLS.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        if let Some(rest) = url.strip_prefix(UNIX) {
            return Self::of_socket(rest);
        }
        let uri: Uri = url.parse().ok()?;
        let authority = uri.authority()?;
        if uri.scheme() != Some(&Scheme::HTTP) || authority.as_str().contains('@') {
            return None;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Some(Self {
            to: To::Host { name: host.to_owned(), port: authority.port_u16().unwrap_or(80) },
            authority: authority.as_str().to_owned(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    fn of_socket(rest: &str) -> Option<Self> {
        let (socket, path) = rest.split_once(':').unwrap_or((rest, ""));
        let is_path = |text: &str| text.starts_with('/');
        (is_path(socket) && (path.is_empty() || is_path(path))).then(|| Self {
            to: To::Socket(socket.into()),
            authority: NOBODY.to_owned(),
            path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
        })
    }

    pub(crate) async fn connect(&self) -> io::Result<Connection> {
        match &self.to {
            To::Host { name, port } => {
                TcpStream::connect((name.as_str(), *port)).await.map(Either::Left)
            }
            To::Socket(path) => UnixStream::connect(path).await.map(Either::Right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_and_sockets_are_called() {
        let check = |url: &str, expected: Option<(&str, &str)>| {
            let address = Address::parse(url);
            let parts = address.as_ref().map(|address| {
                let to = match &address.to {
                    To::Host { name, port } => format!("{name} {port}"),
                    To::Socket(path) => path.display().to_string(),
                };
                (to, address.path.clone())
            });
            let expected = expected.map(|(to, path)| (to.to_owned(), path.to_owned()));
            assert_eq!(parts, expected, "{url}");
        };
        check("http://app:8081/v1/callbacks/x?y=1", Some(("app 8081", "/v1/callbacks/x?y=1")));
        check("http://10.0.0.1", Some(("10.0.0.1 80", "/")));
        check("http://[fd00::1]:90/", Some(("fd00::1 90", "/")));
        check("unix:/run/app:/v1/callbacks/x:y", Some(("/run/app", "/v1/callbacks/x:y")));
        check("unix:/run/app:", Some(("/run/app", "/")));
        check("unix:/run/app", Some(("/run/app", "/")));
        check("unix:run/app:/x", None);
        check("unix:/run/app:x", None);
        check("https://app/", None);
        check("http://user@app/", None);
        check("/relative", None);
        check("", None);
    }
}
