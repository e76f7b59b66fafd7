//! The section `[api]`. Every key needs a restart.

use crate::min_rate::MinRate;
use serde::Deserialize;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

const MIB: usize = 1024 * 1024;

/// How the API listens, and what it bears.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub listen: SocketAddr,
    /// For what runs beside the app; takes authenticated requests only, too.
    pub internal_listen: SocketAddr,
    /// For what runs in sandboxes: bundles and late results. It takes no token of a person.
    pub callback_listen: Option<SocketAddr>,
    /// Greets and hangs up, so that a sandbox can show that it does not reach it.
    pub canary_listen: Option<SocketAddr>,
    /// Largest body of a JSON request but `/chat`'s, in bytes.
    pub json_bytes: usize,
    /// Largest body of `POST /chat`, files included, in bytes.
    pub chat_body_bytes: usize,
    /// Bodies of JSON requests that are held at once, in bytes; more of them wait.
    pub buffered_bytes: usize,
    /// Largest file of `POST /api/upload`, in bytes.
    pub upload_bytes: u64,
    /// Largest file of `POST /v1/blobs`, in bytes.
    pub blob_bytes: u64,
    /// Wrong credentials that one address may send in a minute.
    pub failed_auth_per_minute: u32,
    /// Requests that one token may send in a second, in the long run.
    pub requests_per_second: u32,
    /// Requests that one token may send at once.
    pub requests_burst: u32,
    /// Event streams at once.
    pub viewer_limit: usize,
    /// Connections at once, event streams included.
    pub connection_limit: usize,
    /// How long a request's head, and a pause in its body, may take.
    pub request_timeout_seconds: u64,
    /// What must come of a body in a second, in the long run.
    pub body_bytes_per_second: u64,
    /// How long `POST /chat` waits for its turn before it answers without the reply.
    pub chat_wait_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self {
            listen: local(3000),
            internal_listen: local(3001),
            callback_listen: None,
            canary_listen: None,
            json_bytes: MIB,
            chat_body_bytes: 25 * MIB,
            // Five of the largest at once, and thousands of the usual ones beside them.
            buffered_bytes: 128 * MIB,
            upload_bytes: 10 * MIB as u64,
            blob_bytes: 25 * MIB as u64,
            failed_auth_per_minute: 10,
            requests_per_second: 50,
            requests_burst: 200,
            viewer_limit: 20_000,
            connection_limit: 22_000,
            request_timeout_seconds: 30,
            // A telephone on GPRS sends several times as much.
            body_bytes_per_second: 1024,
            chat_wait_seconds: 600,
        }
    }
}

impl Config {
    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.request_timeout_seconds.max(1))
    }

    pub(crate) fn min_rate(&self) -> MinRate {
        MinRate::new(self.request_timeout(), self.body_bytes_per_second)
    }

    pub(crate) fn chat_wait(&self) -> Duration {
        Duration::from_secs(self.chat_wait_seconds)
    }
}
