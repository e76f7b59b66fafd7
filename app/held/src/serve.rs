//! The side of the folder.

use crate::{Layout, ONCE, PATH, copy, still::Still};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
    routing::get,
};
use famulus_errors::chain;
use futures::StreamExt;
use rustix::process::Pid;
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    io::{self, Seek, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{net::TcpListener, sync::Mutex, task::spawn_blocking};
use tokio_util::io::ReaderStream;

/// Far more than accounts, keys and contacts take.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;

/// Finds who writes to the folder.
pub type Others = Arc<dyn Fn() -> io::Result<Vec<Pid>> + Send + Sync>;

/// Who gives the folder and takes it.
pub struct Holder {
    folder: PathBuf,
    key: [u8; 32],
    others: Others,
    /// One question at a time.
    turn: Mutex<()>,
}

/// Why it is not done.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the bearer is not the one of this installation")]
    Stranger,
    #[error(
        "there is an account, and it stays; remove it at the daemon to have another one restored"
    )]
    Account,
    #[error("what was sent is not what a backup holds")]
    Strange(#[source] io::Error),
    #[error("more than {MOST_BYTES} bytes were sent")]
    Long,
    #[error("the folder cannot be read or written, or those beside it do not stand still")]
    Failed(#[source] io::Error),
}

impl Holder {
    /// Of a daemon whose own folder this is, for whoever knows the key.
    ///
    /// # Errors
    /// The key cannot be read, or is empty.
    pub fn new(layout: Layout, root: &Path, key_file: &Path, others: Others) -> io::Result<Self> {
        let key = std::fs::read(key_file)?;
        if key.trim_ascii().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the key is empty"));
        }
        let (folder, key) = (root.join(layout.folder), Sha256::digest(key.trim_ascii()).into());
        Ok(Self { folder, key, others, turn: Mutex::default() })
    }

    /// Answers until it is told to end.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let router = Router::new().route(PATH, get(give).put(take)).with_state(Arc::new(self));
        axum::serve(listener, router).with_graceful_shutdown(end).await
    }

    fn admit(&self, request: &Request) -> Result<(), Refused> {
        let bearer = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let bearer = bearer.and_then(|value| value.strip_prefix(b"Bearer "));
        // Digests are compared, so that time tells nothing of the key.
        let fits = bearer.is_some_and(|it| <[u8; 32]>::from(Sha256::digest(it)) == self.key);
        if fits { Ok(()) } else { Err(Refused::Stranger) }
    }
}

async fn give(State(holder): State<Arc<Holder>>, request: Request) -> Result<Response, Refused> {
    holder.admit(&request)?;
    let _turn = holder.turn.lock().await;
    let asked = Arc::clone(&holder);
    let copied = blocking(move || {
        let mut file = tempfile::tempfile()?;
        let _still = Still::new(&*asked.others)?;
        copy::give(&asked.folder, &mut file)?;
        file.rewind()?;
        Ok(file)
    });
    let file = copied.await.map_err(Refused::Failed)?;
    let size = file.metadata().map_err(Refused::Failed)?.len();
    tracing::info!(bytes = size, "a backup was given what the daemon keeps");
    let stream = ReaderStream::new(tokio::fs::File::from_std(file));
    Ok(Body::from_stream(stream).into_response())
}

async fn take(State(holder): State<Arc<Holder>>, request: Request) -> Result<Response, Refused> {
    holder.admit(&request)?;
    let once = request.headers().get(ONCE).map_or_else(Vec::new, |it| it.as_bytes().to_owned());
    let _turn = holder.turn.lock().await;
    let file = received(request.into_body()).await?;
    let asked = Arc::clone(&holder);
    let taken = blocking(move || {
        let still = Still::new(&*asked.others)?;
        if copy::has_account(&asked.folder)? {
            // Who was not told so asks again; whether the daemon was ended nobody knows.
            let is_from_there = copy::is_taken(&asked.folder, &once)?;
            return if is_from_there { still.kill().map(Ok) } else { Ok(Err(Refused::Account)) };
        }
        match copy::take(file, &asked.folder, &once) {
            Ok(()) => still.kill().map(Ok),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Ok(Err(Refused::Strange(error)))
            }
            Err(error) => Err(error),
        }
    });
    taken.await.map_err(Refused::Failed)??;
    tracing::info!("what the daemon keeps was taken back, and the daemon was ended to read it");
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// All of a body, in a file without a name.
async fn received(body: Body) -> Result<File, Refused> {
    let (mut file, mut left) = (tempfile::tempfile().map_err(Refused::Failed)?, MOST_BYTES);
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Refused::Strange(io::Error::other(error)))?;
        left = left.checked_sub(piece.len() as u64).ok_or(Refused::Long)?;
        file.write_all(&piece).map_err(Refused::Failed)?;
    }
    file.rewind().map_err(Refused::Failed)?;
    Ok(file)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Stranger => StatusCode::UNAUTHORIZED,
            Self::Account => StatusCode::CONFLICT,
            Self::Strange(_) => StatusCode::BAD_REQUEST,
            Self::Long => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let why = chain(&self);
        tracing::warn!(status = status.as_u16(), error = %why, "a question was refused");
        (status, why).into_response()
    }
}
