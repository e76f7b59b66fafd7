//! Events beside the Plugins they are about, as `kubectl describe` shows them.
//!
//! A [`Recorder`] remembers whole what it wrote in the last six minutes, so that a repetition counts up
//! the event that is there. With many Plugins that is more memory than all else, so it is begun anew
//! after some: the next repetition is then an event of its own, once.

use std::time::Duration;

use famulus_crds::plugin::Plugin;
use famulus_errors::chain;
use kube::runtime::events::{Event, Recorder, Reporter};
use kube::{Client, Resource, ResourceExt};
use parking_lot::Mutex;

use crate::plugin::error::FailureKind;

/// Events that one recorder writes.
const OF_ONE: u32 = 128;

/// Pauses before an event is written again.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(4)];

/// How long the API server has for an answer.
const ANSWERED: Duration = Duration::from_secs(5);

pub struct Events {
    client: Client,
    /// With the number of events that it wrote. Held for single steps only.
    recorder: Mutex<(Recorder, u32)>,
}

impl Events {
    pub fn new(client: Client) -> Self {
        let recorder = Mutex::new((recorder(&client), 0));
        Self { client, recorder }
    }

    /// Writes an event, and again if that fails for a reason that passes. One that cannot be written
    /// is logged and passed over: the work of a plugin depends on no event.
    pub async fn tell(&self, event: &Event, plugin: &Plugin) {
        let mut pauses = PAUSES.into_iter();
        loop {
            let Err(failed) = self.publish(event, plugin).await else { return };
            let Some(pause) = pauses.next().filter(|_| failed.passes) else {
                let name = plugin.name_any();
                let reason = &event.reason;
                let error = failed.said;
                tracing::warn!(plugin.name = %name, %reason, %error, "an event is not written");
                return;
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn publish(&self, event: &Event, plugin: &Plugin) -> Result<(), Failed> {
        let recorder = self.next();
        let about = plugin.object_ref(&());
        match tokio::time::timeout(ANSWERED, recorder.publish(event, &about)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                Err(Failed { passes: FailureKind::of(&error).passes(), said: chain(&error) })
            }
            Err(late) => Err(Failed { passes: true, said: late.to_string() }),
        }
    }

    fn next(&self) -> Recorder {
        let mut kept = self.recorder.lock();
        if kept.1 == OF_ONE {
            *kept = (recorder(&self.client), 0);
        }
        kept.1 += 1;
        kept.0.clone()
    }
}

struct Failed {
    passes: bool,
    said: String,
}

fn recorder(client: &Client) -> Recorder {
    let reporter = Reporter { controller: "famulus-operator".to_owned(), instance: None };
    Recorder::new(client.clone(), reporter)
}
