//! Listening, connections, and their end.
//!
//! Every connection is one task that this module owns. HTTP/1.1 is spoken with small buffers and a
//! deadline for heads; a request that becomes an event stream takes the socket out of HTTP's hands
//! ([`Takeover`]).

use crate::{
    app::{Api, App},
    body, callback,
    fairness::Shares,
    guard,
    listeners::{Admission, Arrived, ListenerGroup, Listeners},
    min_rate::MinRate,
    problem::Problem,
    routes::{self, lookup::Listener},
    sse::{self, Source},
};
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{Method, header},
    response::{IntoResponse, Response},
};
use famulus_core::runner::{Door, Origin};
use famulus_lifecycle::boxed;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::{convert::Infallible, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixListener,
    sync::{Notify, Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};
use tokio_util::{either::Either, sync::CancellationToken};
use tower::ServiceExt as _;

/// The most that is kept of a head, and of an answer that is not taken yet.
const BUFFER: usize = 16 * 1024;
/// After an error of `accept`, which is nearly always a lack of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How long the rest of a body is waited for that nobody reads.
const UNWANTED: Duration = Duration::from_secs(1);
/// What is read of it, whoever sends it: as much as a message may have.
const PASSED_OVER: u64 = 1024 * 1024;

/// The API could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the address of a listener cannot be read")]
    Address(#[source] io::Error),
}

impl Api {
    /// Serves until the token ends, then ends event streams, waits for the requests that run, and
    /// returns. Dropping the future ends everything at once; the caller sets the deadline.
    #[boxed]
    pub async fn serve(
        self,
        listeners: Listeners,
        shutdown: CancellationToken,
    ) -> Result<(), ServeError> {
        let Listeners { public, internal, callback, doors } = listeners;
        let address = public.local_addr().map_err(ServeError::Address)?;
        tracing::info!(%address, "the API listens");
        let places = self.config.connection_limit.max(1);
        let table = routes::table();
        let app = Arc::new(App::new(self, routes::lookup(&table), shutdown.clone()));
        let server = Arc::new(Server {
            router: routes::router(table, Arc::clone(&app)),
            callback: callback::router(Arc::clone(&app)),
            app,
        });
        let group = ListenerGroup::Front(public, internal);
        let front = accept_loop(Arc::clone(&server), group, places, shutdown.clone());
        let shares = Shares::new(callback::CONNECTIONS);
        let back = async {
            if let Some(listener) = callback {
                let group = ListenerGroup::Callback(listener, Arc::clone(&shares));
                let (server, all) = (Arc::clone(&server), callback::CONNECTIONS.all);
                accept_loop(server, group, all, shutdown.clone()).await;
            }
        };
        let doors = async {
            if let Some(doors) = doors {
                let (server, shares) = (Arc::clone(&server), Arc::clone(&shares));
                doors_loop(server, doors, shares, shutdown.clone()).await;
            }
        };
        tokio::join!(front, back, doors);
        Ok(())
    }
}

/// Serves every door that comes, until it is closed.
async fn doors_loop(
    server: Arc<Server>,
    mut doors: mpsc::Receiver<Door>,
    shares: Arc<Shares>,
    shutdown: CancellationToken,
) {
    let mut served = JoinSet::new();
    loop {
        let door = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_closed) = served.join_next() => continue,
            Some(door) = doors.recv() => door,
        };
        let Door { plugin, listener, closed } = door;
        let listener =
            listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, plugin.uid = %plugin, "the door of a plugin cannot be served");
                continue;
            }
        };
        let (server, shares) = (Arc::clone(&server), Arc::clone(&shares));
        let shutdown = shutdown.clone();
        served.spawn(async move {
            let end = shutdown.child_token();
            let group = ListenerGroup::Door(listener, plugin, shares);
            let ended = accept_loop(server, group, callback::CONNECTIONS.per_origin, end.clone());
            tokio::pin!(ended);
            tokio::select! {
                () = &mut ended => return,
                () = closed.cancelled() => end.cancel(),
            }
            ended.await;
        });
    }
    while served.join_next().await.is_some() {}
}

/// Takes connections in, so many at once, until the token ends, and waits for their end.
async fn accept_loop(
    server: Arc<Server>,
    group: ListenerGroup,
    places: usize,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(places));
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned();
        let accepted = async {
            // The semaphore is never closed.
            let place = place.await.ok();
            (group.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_ended) = connections.join_next() => continue,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok(arrived) => {
                let share = match group.admit(&arrived.from) {
                    Admission::Free => None,
                    Admission::Share(share) => Some(share),
                    // It is hung up on, and comes again.
                    Admission::Refused => continue,
                };
                let (server, shutdown) = (Arc::clone(&server), shutdown.clone());
                connections.spawn(async move {
                    connection(server, arrived, shutdown).await;
                    drop((place, share));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
    drop(group);
    while connections.join_next().await.is_some() {}
}

struct Server {
    app: Arc<App>,
    router: Router,
    /// Of sandboxes; it has a guard of its own.
    callback: Router,
}

/// The way of an event stream out of HTTP's hands: the handler leaves it here and never answers.
#[derive(Clone, Default)]
pub(crate) struct Takeover(Arc<TakeoverState>);

#[derive(Default)]
struct TakeoverState {
    source: Mutex<Option<Source>>,
    ready: Notify,
}

impl Takeover {
    /// Ends HTTP on this connection; the source is written to its socket from now on.
    pub(crate) async fn take(self, source: Source) -> Response {
        *self.0.source.lock() = Some(source);
        self.0.ready.notify_one();
        std::future::pending().await
    }

    async fn taken(&self) -> Option<Source> {
        self.0.ready.notified().await;
        self.0.source.lock().take()
    }
}

async fn connection(server: Arc<Server>, arrived: Arrived, shutdown: CancellationToken) {
    let Arrived { socket, from, listener } = arrived;
    // Boxed, so that an event stream does not keep the room that HTTP needed.
    match socket {
        Either::Left(socket) => {
            let taken = Box::pin(http(server, socket, from, listener, &shutdown)).await;
            if let Some((socket, source)) = taken {
                sse::run(socket, source, shutdown).await;
            }
        }
        // No event stream is served to sandboxes.
        Either::Right(socket) => {
            let _none = Box::pin(http(server, socket, from, listener, &shutdown)).await;
        }
    }
}

/// Speaks HTTP until the connection ends, or becomes an event stream.
async fn http<S>(
    server: Arc<Server>,
    socket: S,
    from: Origin,
    listener: Listener,
    shutdown: &CancellationToken,
) -> Option<(S, Source)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let takeover = Takeover::default();
    let head = match listener {
        Listener::Public | Listener::Internal => server.app.api.config.request_timeout(),
        Listener::Callback => callback::HEAD,
    };
    let service = {
        let takeover = takeover.clone();
        service_fn(move |request: hyper::Request<Incoming>| {
            let (server, takeover) = (Arc::clone(&server), takeover.clone());
            let from = from.clone();
            async move {
                let request = request.map(Body::new);
                Ok::<_, Infallible>(server.answer(request, from, listener, takeover).await)
            }
        })
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(socket), service);
    let mut ending = false;
    let source = loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke off");
                }
                return None;
            }
            source = takeover.taken() => break source?,
            () = shutdown.cancelled(), if !ending => {
                ending = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    Some((connection.into_parts().io.into_inner(), source))
}

impl Server {
    async fn answer(
        &self,
        request: Request,
        from: Origin,
        listener: Listener,
        takeover: Takeover,
    ) -> Response {
        let started = Instant::now();
        let method = request.method().clone();
        let response = match listener {
            Listener::Public | Listener::Internal => {
                self.for_people(request, &from, listener, takeover).await
            }
            Listener::Callback => served(&self.callback, callback::from(request, from)).await,
        };
        let status = response.status().as_u16().to_string();
        metrics::histogram!("famulus_http_seconds", "method" => known(&method), "status" => status)
            .record(started.elapsed().as_secs_f64());
        guard::secure(response)
    }

    async fn for_people(
        &self,
        request: Request,
        from: &Origin,
        listener: Listener,
        takeover: Takeover,
    ) -> Response {
        let (mut parts, body) = request.into_parts();
        match guard::admit(&self.app, &mut parts, from, listener).await {
            Ok(()) => {
                parts.extensions.insert(takeover);
                served(&self.router, Request::from_parts(parts, body)).await
            }
            Err(problem) => {
                let waits = parts.headers.contains_key(header::EXPECT);
                let bytes_per_second = self.app.api.config.body_bytes_per_second;
                refuse(problem, bytes_per_second, waits, body).await
            }
        }
    }
}

async fn served(router: &Router, request: Request) -> Response {
    match router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The name of a method that is served. A caller may make up others, which must not become labels.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// A body that nobody reads is read on for a while: whoever still writes when the connection ends would see that,
/// and not why. A stranger's that is larger than a message is not; nor one that waits for our word to come.
async fn refuse(problem: Problem, bytes_per_second: u64, waits: bool, body: Body) -> Response {
    use hyper::body::Body as _;
    let is_ours = problem.kind.status().is_server_error();
    let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= PASSED_OVER);
    if (is_ours || is_small) && !waits {
        body::drain(MinRate::new(UNWANTED, bytes_per_second).pieces(body)).await;
    }
    problem.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::table;

    #[test]
    fn a_made_up_method_is_no_label() {
        let made_up = Method::from_bytes(b"MADE-UP-7").unwrap();
        assert_eq!(known(&made_up), "other");
        let mut served: Vec<Method> = table().into_iter().map(|route| route.method).collect();
        served.dedup();
        for method in served {
            assert_eq!(known(&method), method.as_str());
        }
    }
}
