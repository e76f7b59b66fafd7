//! Health and metrics, for the kubelet and Prometheus. Nothing else is served.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use famulus_lifecycle::{OnExit, Tasks};
use famulus_telemetry::Metrics;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at a time.
const PLACES: usize = 32;

/// For one connection, from its beginning to its end.
const LONGEST: Duration = Duration::from_secs(30);

/// After an error of `accept`, which is nearly always a lack of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How far the operator has come. Clones share it.
#[derive(Clone, Default)]
pub struct Health {
    stage: Arc<AtomicU8>,
}

/// What the operator does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    Starting = 0,
    /// Another operator works. This one is ready to.
    Waiting = 1,
    Working = 2,
    Ending = 3,
}

impl Health {
    pub fn set(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
        let leads = if stage == Stage::Working { 1.0 } else { 0.0 };
        metrics::gauge!("famulus_operator_leads").set(leads);
    }

    fn is_ready(&self) -> bool {
        [Stage::Waiting as u8, Stage::Working as u8].contains(&self.stage.load(Ordering::Relaxed))
    }
}

/// Serves until the process ends.
pub fn serve(listener: TcpListener, health: Health, metrics: Metrics, tasks: &Tasks) {
    let connections = tasks.clone();
    tasks.spawn("health", OnExit::ShutDown, async move {
        let places = Arc::new(Semaphore::new(PLACES));
        let stop = connections.token();
        loop {
            // The semaphore is never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, _peer)) => {
                    let (health, metrics) = (health.clone(), metrics.clone());
                    connections.spawn("health.connection", OnExit::Log, async move {
                        connection(socket, health, metrics).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    });
}

async fn connection(socket: TcpStream, health: Health, metrics: Metrics) {
    let answers = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, &health, &metrics);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), answers);
    if let Ok(Err(error)) = tokio::time::timeout(LONGEST, served).await {
        tracing::debug!(%error, "a connection for health broke");
    }
}

fn answer(request: &Request<Incoming>, health: &Health, metrics: &Metrics) -> Response<String> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz" | "/livez") => (StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET, "/readyz") if health.is_ready() => (StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET, "/readyz") => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned()),
        (&Method::GET, "/metrics") => (StatusCode::OK, metrics.text()),
        _ => (StatusCode::NOT_FOUND, "there are /livez, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
