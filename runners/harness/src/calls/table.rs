//! What is known of calls: that files came, that they were taken, and that their result arrived.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use famulus_protocol::{CallId, Kind, Problem};
use tokio::time::Instant;

use crate::live::{Live, Phase};

/// Names of acknowledged calls that are remembered, so that a repeated request does not run again.
const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(super) struct CallTable {
    calls: HashMap<CallId, Entry>,
    acknowledged: VecDeque<CallId>,
}

enum Entry {
    /// Files came, and the call did not yet.
    Uploading(Instant),
    Accepted(Arc<Live>),
}

impl Entry {
    fn accepted(&self) -> Option<&Arc<Live>> {
        match self {
            Self::Accepted(live) => Some(live),
            Self::Uploading(_) => None,
        }
    }
}

impl CallTable {
    /// The call, if it was taken before and its result has not arrived.
    pub(super) fn taken_before(&self, id: &CallId) -> Result<Option<Arc<Live>>, Problem> {
        if self.was_acknowledged(id) {
            return Err(Problem::new(
                Kind::Acknowledged,
                format!("the result of call `{id}` was acknowledged already"),
                "use the result that you have; a new call needs a new id",
            ));
        }
        Ok(self.accepted(id))
    }

    pub(super) fn accepted(&self, id: &CallId) -> Option<Arc<Live>> {
        self.calls.get(id).and_then(Entry::accepted).map(Arc::clone)
    }

    pub(super) fn accept(&mut self, id: CallId, live: Arc<Live>) {
        self.calls.insert(id, Entry::Accepted(live));
    }

    pub(super) fn expect_uploads(&mut self, id: &CallId) -> Result<(), Problem> {
        if self.accepted(id).is_some() {
            return Err(Problem::new(
                Kind::Invalid,
                format!("call `{id}` has begun"),
                "send its files before the call",
            ));
        }
        self.calls.insert(id.clone(), Entry::Uploading(Instant::now()));
        Ok(())
    }

    /// The call, or `None` while only files came.
    pub(super) fn find(&self, id: &CallId) -> Result<Option<Arc<Live>>, Problem> {
        let entry = self.calls.get(id).ok_or_else(|| no_call(id))?;
        Ok(entry.accepted().map(Arc::clone))
    }

    pub(super) fn was_acknowledged(&self, id: &CallId) -> bool {
        self.acknowledged.contains(id)
    }

    pub(super) fn acknowledge(&mut self, id: &CallId) {
        self.calls.remove(id);
        if self.acknowledged.len() >= REMEMBERED {
            self.acknowledged.pop_front();
        }
        self.acknowledged.push_back(id.clone());
    }

    /// Forgets calls of which only files came, this long ago, and names them.
    pub(super) fn drop_unused(&mut self, age: Duration) -> Vec<CallId> {
        let is_unused = |_: &CallId, entry: &mut Entry| match entry {
            Entry::Uploading(since) => since.elapsed() >= age,
            Entry::Accepted(_) => false,
        };
        self.calls.extract_if(is_unused).map(|(id, _)| id).collect()
    }

    /// How many have a result that did not arrive.
    pub(super) fn kept(&self) -> usize {
        let ended = |live: &&Arc<Live>| live.phase() == Phase::Ended;
        self.calls.values().filter_map(Entry::accepted).filter(ended).count()
    }
}

pub(super) fn no_call(id: &CallId) -> Problem {
    Problem::new(
        Kind::NoCall,
        format!("the runner knows no call `{id}`"),
        "it never came here, or its result was acknowledged",
    )
}
