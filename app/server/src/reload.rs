//! The configuration while the assistant runs: live keys take effect within seconds, and of others
//! that were changed people are told that they wait for the next start.
//!
//! ```text
//! every 5 s: file, secrets ─► digest of each key ─► as seen before? nothing
//!                                                └► live ones in force, the others told
//! ```
//!
//! What is wrong is told as well, and what was in force stays. Secrets are compared by their
//! digests, so that one whose file was replaced counts as changed.

use crate::{
    app::App,
    config::{self, Takes, Values},
};
use famulus_agent::Limits;
use famulus_api::Configured;
use famulus_models::Models;
use famulus_telemetry::Redactor;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const LOOK: Duration = Duration::from_secs(5);

/// Where changes take effect.
pub struct Reach {
    pub model: Arc<Models>,
    pub redactor: Redactor,
    /// Takes the filter of the log.
    pub log: Box<dyn Fn(&str) + Send + Sync>,
}

/// Where the configuration is, if anywhere: it may be written after the start.
pub type Find = Box<dyn Fn() -> Option<PathBuf> + Send + Sync>;

/// Looks at the configuration again and again.
pub struct Reload {
    find: Find,
    reach: Reach,
    limits: watch::Sender<Limits>,
    told: watch::Sender<Configured>,
    /// What the assistant was started with: a key that needs a restart is held against it.
    started: Values,
    /// What stood there at the last look, or what was wrong with it.
    seen: Result<Values, String>,
}

impl Reload {
    /// For an assistant that was started with these values.
    pub fn new(app: &App, find: Find, started: Values, reach: Reach) -> Self {
        Self {
            find,
            reach,
            limits: app.limits.clone(),
            told: app.configured.clone(),
            seen: Ok(started.clone()),
            started,
        }
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK) => self.look(),
            }
        }
    }

    /// Puts into force what has changed since the last look.
    pub fn look(&mut self) {
        let now = config::load((self.find)().as_deref())
            .and_then(|loaded| Ok((loaded.values()?, loaded)))
            .map_err(|error| error.to_string());
        let seen = match &now {
            Ok((values, _)) => Ok(values.clone()),
            Err(error) => Err(error.clone()),
        };
        if seen == self.seen {
            return;
        }
        match now.and_then(|(values, loaded)| self.put_into_force(&values, &loaded)) {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(error, "the changed configuration is not used");
                self.told.send_modify(|told| told.unusable = Some(error));
            }
        }
        self.seen = seen;
    }

    fn put_into_force(&self, now: &Values, loaded: &config::Loaded) -> Result<(), String> {
        let config =
            loaded.with_secrets(&self.reach.redactor).map_err(|error| error.to_string())?;
        let model = config.model.name.clone();
        self.reach.model.change(config.model).map_err(|error| error.to_string())?;
        (self.reach.log)(&config.telemetry.log);
        self.limits.send_replace(config.turns.limits());
        let waiting: Vec<String> = self
            .started
            .changed(now)
            .into_iter()
            .filter(|(_, takes)| *takes == Takes::Restart)
            .map(|(path, _)| path)
            .collect();
        tracing::info!("the configuration was read again; live keys are in force");
        if !waiting.is_empty() {
            tracing::warn!(keys = waiting.join(", "), "changed keys wait for the next start");
        }
        let model = App::model_name(model, self.reach.model.as_ref());
        self.told.send_replace(Configured { model, waiting, unusable: None });
        Ok(())
    }
}
