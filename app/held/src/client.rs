//! The side of backups.

use crate::{ONCE, PATH};
use bytes::Bytes;
use famulus_errors::chain;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use reqwest::{Body, RequestBuilder, Response, StatusCode, redirect};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use url::Url;

/// A Pod of the same cluster answers a connection at once, or not at all.
const CONNECT: Duration = Duration::from_secs(2);
/// While nothing comes: the folder is copied, or written, in one go.
const SILENCE: Duration = Duration::from_mins(1);
/// Between two attempts.
const AGAIN: Duration = Duration::from_secs(1);
/// Of what is said why not.
const WHY: usize = 500;

/// Bytes in order.
pub type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// Asks for what the daemon of a channel keeps.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    url: Url,
    key_file: PathBuf,
    patience: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The daemon has it.
    Back,
    /// There is an account, which stays.
    There,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no client for daemons can be made")]
    Http(#[source] reqwest::Error),
    #[error("the address {0} cannot be used")]
    Address(Url),
    #[error("the key cannot be read from {path}")]
    Key { path: PathBuf, source: io::Error },
    #[error("{url} did not answer within {seconds} s: {why}")]
    Silent { url: Url, seconds: u64, why: String },
    #[error("{url} refuses: {why}")]
    Refused { url: Url, why: String },
}

impl Client {
    /// Of whoever listens there, and is waited for so long.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(base: &Url, key_file: &Path, patience: Duration) -> Result<Self, ClientError> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(ClientError::Http)?;
        let url = base.join(PATH).map_err(|_| ClientError::Address(base.clone()))?;
        Ok(Self { http, url, key_file: key_file.to_owned(), patience })
    }

    /// What the daemon keeps, as a tar.
    ///
    /// # Errors
    /// It is not given.
    pub async fn give(&self) -> Result<Pieces, ClientError> {
        let request = || self.http.get(self.url.clone());
        let none = async || Ok::<_, ClientError>(Body::default());
        let response = self.ask(request, none).await?;
        if response.status().is_success() {
            return Ok(response.bytes_stream().map_err(io::Error::other).boxed());
        }
        Err(self.refused(response).await)
    }

    /// Gives a daemon without an account what one kept, read anew for each attempt.
    ///
    /// # Errors
    /// It is not taken, or cannot be read.
    pub async fn take_back<E: From<ClientError>>(
        &self,
        kept: impl AsyncFn() -> Result<Pieces, E>,
    ) -> Result<Taken, E> {
        let once = format!("{:032x}", rand::random::<u128>());
        let request = || self.http.put(self.url.clone()).header(ONCE, &once);
        let body = async || kept().await.map(Body::wrap_stream);
        let response = self.ask(request, body).await?;
        match response.status() {
            status if status.is_success() => Ok(Taken::Back),
            StatusCode::CONFLICT => Ok(Taken::There),
            _ => Err(self.refused(response).await.into()),
        }
    }

    /// Asks until somebody says something.
    async fn ask<E: From<ClientError>>(
        &self,
        request: impl Fn() -> RequestBuilder,
        body: impl AsyncFn() -> Result<Body, E>,
    ) -> Result<Response, E> {
        let path = &self.key_file;
        let key = fs::read_to_string(path);
        let key = key.map_err(|source| ClientError::Key { path: path.clone(), source })?;
        let until = Instant::now() + self.patience;
        loop {
            let request = request().bearer_auth(key.trim()).body(body().await?);
            let why = match request.send().await {
                Ok(response) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
                    self.refused(response).await.to_string()
                }
                Ok(response) => return Ok(response),
                Err(error) => chain(&error),
            };
            if Instant::now() >= until {
                let (url, seconds) = (self.url.clone(), self.patience.as_secs());
                return Err(ClientError::Silent { url, seconds, why }.into());
            }
            sleep(AGAIN).await;
        }
    }

    async fn refused(&self, response: Response) -> ClientError {
        let status = response.status();
        let text = response.text().await.unwrap_or_else(|error| chain(&error));
        let why =
            if text.is_empty() { status.to_string() } else { text.chars().take(WHY).collect() };
        ClientError::Refused { url: self.url.clone(), why }
    }
}
