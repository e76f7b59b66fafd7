//! Lets runners end that nobody uses.
//!
//! Use is noted where all processes see it: what was called since the last look, and what runs now.
//! A runner that is told to end finishes what it has, so a call that slips in between is refused
//! with *draining* and starts another one.

use std::sync::Arc;
use std::time::Duration;

use famulus_errors::chain;
use tokio::time::{MissedTickBehavior, interval};

use crate::calls::Calls;
use crate::home::{Home, KnownPlugin, KnownRunner, ScaleError};
use crate::usage::LOOK;

/// Every so many looks it is said again which results may go.
const SETTLE: u64 = 5;

/// Who was let stop has so long before another one is.
const STOP_AGAIN: Duration = Duration::from_secs(10);

impl<H: Home> Calls<H> {
    /// Looks again and again.
    pub(crate) async fn run_idle(self: Arc<Self>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for look in 0_u64.. {
            looks.tick().await;
            self.look().await;
            if look % SETTLE == 0 {
                self.retry_acks().await;
            }
        }
    }

    async fn look(&self) {
        let plugins = self.home.plugins();
        let mut used = self.used.take();
        for known in plugins.values() {
            if self.home.runners(known).iter().any(|runner| runner.conduct().calls() > 0) {
                used.insert(known.uid().to_owned());
            }
        }
        let noted: Vec<String> = used.iter().cloned().collect();
        if !noted.is_empty()
            && let Err(error) = self.demand.used(&noted).await
        {
            tracing::warn!(error = chain(&error), "the use of plugins could not be recorded");
            for plugin in &noted {
                self.used.called(plugin);
            }
            return;
        }
        let up = plugins.values().filter(|known| known.wants_runner());
        for known in self.used.due(&used, up) {
            self.scale_down(&known).await;
        }
    }

    /// Lets its runners end, if nobody used it for long enough and this process is the one that does.
    async fn scale_down(&self, known: &H::Plugin) {
        let failed = |error: String| {
            tracing::warn!(
                plugin.name = known.name(),
                error,
                "an idle plugin could not be scaled to zero"
            );
        };
        match self.demand.may_stop(known.uid(), known.idle(), STOP_AGAIN).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return failed(chain(&error)),
        }
        match self.home.end(known).await {
            Ok(()) => tracing::info!(plugin.name = known.name(), "scaling an idle plugin to zero"),
            Err(ScaleError::Changed) => {
                tracing::debug!(
                    plugin.name = known.name(),
                    "an idle plugin is not scaled to zero: it changed meanwhile"
                );
            }
            Err(error) => failed(chain(&error)),
        }
    }
}
