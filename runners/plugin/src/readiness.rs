//! Whether calls may run, and why not: network, revision, configuration, budget.

use famulus_protocol::revision::Network;
use famulus_protocol::{Kind, Problem};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The annotation by which the operator is told so.
const RESTORED_FROM: &str = "famulus.dev/restored-from";

/// What is known of a runner, kept by those who find it out.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// Held for single operations, never across an await.
    state: Mutex<State>,
    /// The network was looked at.
    looked: Notify,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The operator decides what serves; otherwise nothing of this counts but the budget.
    pub(crate) in_cluster: bool,
    pub(crate) network: Option<Network>,
    /// What was seen of it.
    pub(crate) seen: String,
    /// The owner lets plugins run although the network is not closed.
    pub(crate) accepted: bool,
    pub(crate) revision: Option<String>,
    pub(crate) rendered: Option<i64>,
    /// The backup that the plugin's files come from, which are not there yet.
    pub(crate) awaits: Option<String>,
    /// Keys of the configuration that have no value and must have one.
    pub(crate) missing: Vec<String>,
    /// What is wrong with a revision that does not serve.
    pub(crate) complaint: Option<String>,
    /// What the plugin's files came to when they were more than they may be.
    pub(crate) over: Option<String>,
}

impl Readiness {
    pub(crate) fn now(&self) -> State {
        self.state.lock().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
    }

    /// Notes what was found of the network.
    pub(crate) fn see(&self, network: Network, seen: &str) {
        self.change(|state| {
            state.network = Some(network);
            seen.clone_into(&mut state.seen);
        });
        self.looked.notify_one();
    }

    /// Waits until the network was looked at. Cancel safe.
    pub(crate) async fn looked(&self) {
        self.looked.notified().await;
    }
}

impl State {
    /// Whether plugin code may run at all.
    pub(crate) fn is_isolated(&self) -> bool {
        !self.in_cluster || self.accepted || self.network == Some(Network::Closed)
    }

    /// Whether calls can be taken, or why not.
    pub(crate) fn readiness(&self) -> Result<(), String> {
        if !self.is_isolated() {
            let found = match self.network {
                None => "the network was not looked at yet",
                Some(Network::Unknown) => "whether the network is closed is unknown",
                Some(Network::Open) => "the network is not closed",
                Some(Network::Closed) => "the network is closed",
            };
            return Err(format!("{found}: {}", self.seen));
        }
        if self.in_cluster && self.revision.is_none() {
            return Err("no revision serves yet; see whether its build succeeded".to_owned());
        }
        if let Some(backup) = &self.awaits {
            return Err(format!(
                "its files are to come from the backup {backup}; see the log of the restore, or remove \
                 the Plugin's annotation {RESTORED_FROM} to go on without them"
            ));
        }
        Ok(())
    }

    /// Lets a call pass, or says why it may not run.
    pub(crate) fn admit(&self) -> Result<(), Problem> {
        self.readiness().map_err(|why| {
            Problem::new(
                Kind::NotReady,
                format!("no plugin code runs here now: {why}"),
                "wait a little; if it stays so, ask the owner to look at the Plugin's conditions",
            )
        })?;
        if !self.missing.is_empty() {
            let keys = self.missing.join("`, `");
            return Err(Problem::new(
                Kind::Config,
                format!("the plugin's configuration has no value for `{keys}`"),
                "ask the owner to put it into the Secret that the Plugin's spec.configSecretRef names",
            ));
        }
        if let Some(over) = &self.over {
            return Err(Problem::new(
                Kind::State,
                over.clone(),
                "ask the owner to raise the limit, or to delete the plugin's volume",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_runs_before_everything_is_in_place() {
        let serving = State {
            in_cluster: true,
            network: Some(Network::Closed),
            revision: Some("sha256:x".into()),
            ..State::default()
        };
        let check = |state: State, expected: Option<Kind>| {
            assert_eq!(state.admit().err().map(|problem| problem.kind), expected, "{state:?}");
        };
        check(serving.clone(), None);
        check(State { network: None, ..serving.clone() }, Some(Kind::NotReady));
        check(State { network: Some(Network::Open), ..serving.clone() }, Some(Kind::NotReady));
        check(State { network: Some(Network::Unknown), ..serving.clone() }, Some(Kind::NotReady));
        let accepted = State { accepted: true, network: Some(Network::Open), ..serving.clone() };
        check(accepted, None);
        check(State { revision: None, ..serving.clone() }, Some(Kind::NotReady));
        check(State { awaits: Some("b".into()), ..serving.clone() }, Some(Kind::NotReady));
        check(State { missing: vec!["k".into()], ..serving.clone() }, Some(Kind::Config));
        check(State { over: Some("much".into()), ..serving }, Some(Kind::State));
        check(State::default(), None);
    }
}
