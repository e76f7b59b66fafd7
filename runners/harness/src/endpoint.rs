//! Where somebody is reached: at an address with a port, or, on one machine, at a socket in a folder.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

/// How a socket is told from an address.
const UNIX: &str = "unix:";

/// What an [`Endpoint`] is in a variable, for people.
pub const ENDPOINT: &str = "an address with a port, or `unix:` and the path of a socket";

/// In text `10.0.0.1:80`, or `unix:/run/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Address(SocketAddr),
    Socket(PathBuf),
}

/// What is neither.
#[derive(Debug, thiserror::Error)]
#[error("it is neither an address with a port nor `unix:` and the path of a socket")]
pub struct NoEndpoint;

impl Endpoint {
    /// How the URL of a request there begins.
    pub fn url(&self) -> String {
        match self {
            Self::Address(address) => format!("http://{address}"),
            Self::Socket(_) => self.to_string(),
        }
    }

    /// Connects, and hangs up.
    ///
    /// # Errors
    /// Nobody listens there, or what is between lets nothing through.
    pub async fn try_connect(&self) -> io::Result<()> {
        match self {
            Self::Address(address) => TcpStream::connect(address).await.map(drop),
            Self::Socket(path) => UnixStream::connect(path).await.map(drop),
        }
    }
}

impl FromStr for Endpoint {
    type Err = NoEndpoint;

    fn from_str(text: &str) -> Result<Self, NoEndpoint> {
        match text.strip_prefix(UNIX) {
            Some(path) if path.starts_with('/') => Ok(Self::Socket(path.into())),
            Some(_) => Err(NoEndpoint),
            None => text.parse().map(Self::Address).map_err(|_other| NoEndpoint),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(to, "{address}"),
            Self::Socket(path) => write!(to, "{UNIX}{}", path.display()),
        }
    }
}

/// Who listens at an endpoint.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection of either kind.
pub(crate) type Connection = Either<TcpStream, UnixStream>;

impl Listener {
    /// Cancel safe.
    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        match self {
            Self::Tcp(listener) => {
                let (socket, _peer) = listener.accept().await?;
                // Without it a line of progress waits for the acknowledgement of the one before.
                if let Err(error) = socket.set_nodelay(true) {
                    tracing::debug!(%error, "a socket option was refused");
                }
                Ok(Either::Left(socket))
            }
            Self::Unix(listener) => {
                listener.accept().await.map(|(socket, _)| Either::Right(socket))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_written_as_it_is_read() {
        for text in ["10.0.0.1:80", "[::]:8090", "unix:/run/famulus/a b"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["unix:relative", "unix:", "10.0.0.1", "/run/socket", ""] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
