//! Begins to look after the runners of a home.

use std::sync::{Arc, Weak};

use famulus_lifecycle::{OnExit, Tasks};

use crate::calls::{Calls, Ports, Timeouts};
use crate::clients::client;
use crate::home::Home;
use crate::owed::PendingAcks;
use crate::usage::Usage;

impl<H: Home> Calls<H> {
    /// `callback_url` is where runners find any process of the app, as `http://famulus-callback:3002`
    /// or `unix:/run/famulus/app`.
    ///
    /// # Errors
    /// No client for runners can be made.
    pub fn start(
        home: Arc<H>,
        callback_url: String,
        timeouts: Timeouts,
        ports: Ports,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, reqwest::Error> {
        let http = client()?;
        let Ports { blobs, demand } = ports;
        let calls = Arc::new_cyclic(|own| Self {
            home,
            http,
            callback_url,
            timeouts,
            blobs,
            demand,
            used: Usage::default(),
            acks: PendingAcks::default(),
            tasks: tasks.clone(),
            own: Weak::clone(own),
        });
        let (tended, token) = (Arc::clone(&calls), tasks.token());
        tasks.spawn_loop("sandbox.idle", OnExit::Restart, move || {
            let (calls, token) = (Arc::clone(&tended), token.clone());
            async move {
                tokio::select! {
                    () = calls.run_idle() => {}
                    () = token.cancelled() => {}
                }
            }
        });
        Ok(calls)
    }
}
