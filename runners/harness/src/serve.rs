//! Connections: one task each, with small buffers and a deadline for heads.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use famulus_protocol::paths;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::bearer::Bearer;
use crate::endpoint::{Connection, Listener};
use crate::refusal::Refusal;

/// The most that is kept of a head, and of an answer that is not taken yet.
const BUFFER: usize = 16 * 1024;

/// After an error of `accept`, which is nearly always a lack of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A head that takes longer is none.
const HEAD: Duration = Duration::from_secs(10);

/// Connections at once. Whoever comes when all are taken waits in the kernel's queue.
const CONNECTIONS: usize = 256;

/// Serves until the token ends, then lets answers that are on their way finish.
pub(crate) async fn serve(
    listener: Listener,
    router: Router,
    bearer: Bearer,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let bearer = Arc::new(bearer);
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            // The semaphore is never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_ended) = connections.join_next() => continue,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok(socket) => {
                let (router, bearer) = (router.clone(), Arc::clone(&bearer));
                let shutdown = shutdown.clone();
                connections.spawn(async move {
                    connection(socket, router, bearer, shutdown).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    socket: Connection,
    router: Router,
    bearer: Arc<Bearer>,
    shutdown: CancellationToken,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (router, bearer) = (router.clone(), Arc::clone(&bearer));
        async move { Ok::<_, Infallible>(answer(router, &bearer, request.map(Body::new)).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(socket), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Nothing but the liveness path is answered without a bearer, and what belongs to backups with
/// theirs alone.
async fn answer(router: Router, bearer: &Bearer, request: Request<Body>) -> Response {
    let admitted = match request.uri().path() {
        paths::ALIVE => Ok(()),
        paths::OWN_FILES | paths::CONFIGURATION => bearer.admit_keeper(request.headers()).await,
        _ => bearer.admit(request.headers()).await,
    };
    if let Err(problem) = admitted {
        return Refusal(problem).into_response();
    }
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
