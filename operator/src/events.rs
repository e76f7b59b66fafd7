//! Events beside the Plugins they are about, as `kubectl describe` shows them.
//!
//! A [`Recorder`] remembers whole what it wrote in the last six minutes, so that a repetition counts up
//! the event that is there. With many Plugins that is more memory than all else, so it is begun anew
//! after some: the next repetition is then an event of its own, once.

use famulus_crds::plugin::Plugin;
use kube::runtime::events::{Event, Recorder, Reporter};
use kube::{Client, Resource};
use parking_lot::Mutex;

/// Events that one recorder writes.
const OF_ONE: u32 = 128;

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

    /// Writes an event. Nothing depends on it: an error may be logged and passed over.
    pub async fn tell(&self, event: &Event, plugin: &Plugin) -> Result<(), kube::Error> {
        self.next().publish(event, &plugin.object_ref(&())).await
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

fn recorder(client: &Client) -> Recorder {
    let reporter = Reporter { controller: "famulus-operator".to_owned(), instance: None };
    Recorder::new(client.clone(), reporter)
}
