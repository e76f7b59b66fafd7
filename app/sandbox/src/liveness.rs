//! Whether a runner takes calls already, for a home that has nobody else to ask.

use reqwest::Client;

use crate::clients::client;
use crate::home::KnownRunner;
use crate::wire;

/// Asks runners.
#[derive(Clone, Debug)]
pub struct Liveness(Client);

impl Liveness {
    /// # Errors
    /// No client can be made in this process.
    pub fn new() -> Result<Self, reqwest::Error> {
        client().map(Self)
    }

    pub async fn of(&self, runner: &impl KnownRunner) -> bool {
        wire::is_alive(&self.0, runner).await
    }
}
