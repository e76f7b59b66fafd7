//! A plugin as this machine has it, made into what calls need.

use std::time::Duration;

use famulus_core::plugin::Egress;
use famulus_core::sandbox::PluginState;
use famulus_sandbox::{KnownPlugin, NotReady};
use tokio::time::Instant;

use crate::record::PluginRecord;

/// A runner that ended by itself before it took calls, or the last of several.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failed {
    pub(crate) times: u32,
    /// None is started again before.
    pub(crate) until: Instant,
    pub(crate) why: NotReady,
}

/// The reason while the first revision is built.
const BUILDING: &str = "Building";

/// A plugin at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalPlugin {
    pub(crate) record: PluginRecord,
    /// What proves a request from and to its sandboxes; of this process.
    pub(crate) bearer: String,
    /// Grows with whatever is decided about the plugin.
    pub(crate) version: u64,
    pub(crate) wants_runner: bool,
    pub(crate) runners: u32,
    /// Nothing runs here, for any plugin.
    pub(crate) refused: Option<NotReady>,
    /// Nothing that reaches the internet does.
    pub(crate) no_internet: Option<NotReady>,
    pub(crate) failed: Option<Failed>,
    /// How a sandbox that it had was held.
    pub(crate) isolation: Option<String>,
    /// How far its build is, in words.
    pub(crate) step: Option<&'static str>,
}

impl LocalPlugin {
    fn says(&self) -> NotReady {
        let trouble =
            self.refuses().or_else(|| self.failed.as_ref().map(|failed| failed.why.clone()));
        trouble.unwrap_or_else(|| match (self.runners, self.wants_runner) {
            (0, true) => not_ready("Starting", "its runner is starting"),
            (0, false) => not_ready("Idle", "it sleeps; a call starts it"),
            _ => not_ready("Serving", "it takes calls"),
        })
    }
}

impl KnownPlugin for LocalPlugin {
    fn name(&self) -> &str {
        &self.record.name
    }

    fn uid(&self) -> &str {
        &self.record.uid
    }

    fn rendered(&self) -> i64 {
        self.record.rendered
    }

    fn permits(&self, tool: &str) -> bool {
        self.record.permits(tool)
    }

    fn refuses(&self) -> Option<NotReady> {
        if self.refused.is_some() {
            return self.refused.clone();
        }
        let record = &self.record;
        if record.egress == Egress::Internet && self.no_internet.is_some() {
            return self.no_internet.clone();
        }
        if record.suspended {
            return Some(not_ready("Suspended", "the owner holds it"));
        }
        if record.revision.is_none() {
            let pending = || not_ready("Pending", "no revision of it was built yet");
            let trouble = record.trouble.clone().unwrap_or_else(pending);
            return Some(match self.step.filter(|_| trouble.reason == BUILDING) {
                Some(step) => not_ready(BUILDING, step),
                None => trouble,
            });
        }
        if record.permitted.is_empty() {
            return Some(not_ready("NothingPermitted", "the owner permits none of its tools"));
        }
        None
    }

    /// A sandbox looks at its network before it runs anything; nothing else has to.
    fn needs_recheck(&self) -> bool {
        false
    }

    fn says(&self) -> NotReady {
        Self::says(self)
    }

    fn state(&self) -> PluginState {
        let NotReady { reason, message } = Self::says(self);
        let record = &self.record;
        PluginState {
            name: record.name.clone(),
            ready: self.refuses().is_none() && self.failed.is_none(),
            reason,
            message,
            revision: record.revision.clone(),
            commit: record.commit.clone(),
            tools: record.tools.iter().filter(|tool| record.permits(tool)).cloned().collect(),
            config_keys: record.config_keys.clone(),
            egress: match record.egress {
                Egress::None => "None",
                Egress::Internet => "Internet",
            }
            .to_owned(),
            runners: self.runners,
            isolation: self.isolation.clone(),
        }
    }

    fn wants_runner(&self) -> bool {
        self.wants_runner
    }

    fn idle(&self) -> Duration {
        self.record.idle
    }

    fn has_one_runner(&self) -> bool {
        true
    }
}

pub(crate) fn not_ready(reason: &str, message: impl Into<String>) -> NotReady {
    NotReady { reason: reason.to_owned(), message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin() -> LocalPlugin {
        LocalPlugin {
            record: PluginRecord {
                uid: "u".to_owned(),
                name: "weather".to_owned(),
                rendered: 1,
                revision: Some("sha256:0a".to_owned()),
                commit: None,
                tools: vec!["look".to_owned(), "feel".to_owned()],
                permitted: vec!["look".to_owned()],
                config_keys: Vec::new(),
                egress: Egress::None,
                init_egress: Egress::None,
                suspended: false,
                idle: Duration::from_mins(5),
                trouble: None,
            },
            bearer: String::new(),
            version: 1,
            wants_runner: false,
            runners: 0,
            refused: None,
            no_internet: Some(not_ready("NoInternet", "m")),
            failed: None,
            isolation: None,
            step: None,
        }
    }

    #[test]
    fn calls_are_refused_for_what_a_start_does_not_cure() {
        let check = |change: &dyn Fn(&mut LocalPlugin), refused: Option<&str>, says: &str| {
            let mut plugin = plugin();
            change(&mut plugin);
            let refuses = plugin.refuses().map(|why| why.reason);
            assert_eq!(refuses.as_deref(), refused);
            assert_eq!(plugin.says().reason, says);
            assert_eq!(plugin.state().ready, refused.is_none() && plugin.failed.is_none());
        };
        check(&|_| (), None, "Idle");
        check(&|it| it.wants_runner = true, None, "Starting");
        check(&|it| it.runners = 1, None, "Serving");
        let why = not_ready("RunnerFailing", "m");
        let failed = Failed { times: 1, until: Instant::now(), why };
        check(&|it| it.failed = Some(failed.clone()), None, "RunnerFailing");
        check(&|it| it.record.suspended = true, Some("Suspended"), "Suspended");
        check(&|it| it.record.revision = None, Some("Pending"), "Pending");
        let built = |it: &mut LocalPlugin| {
            it.record.revision = None;
            it.record.trouble = Some(not_ready("Building", "it is being built"));
            it.step = Some("its init script runs");
        };
        check(&built, Some("Building"), "Building");
        let mut underway = plugin();
        built(&mut underway);
        assert_eq!(underway.says().message, "its init script runs");
        underway.record.trouble = Some(not_ready("InitFailed", "no room"));
        assert_eq!(
            underway.says().message,
            "no room",
            "what failed stays said while another is fetched"
        );
        check(&|it| it.record.permitted.clear(), Some("NothingPermitted"), "NothingPermitted");
        check(&|it| it.record.egress = Egress::Internet, Some("NoInternet"), "NoInternet");
        // Whatever else is the case: where nothing runs, that is what has to be said.
        check(
            &|it| {
                it.refused = Some(not_ready("NoSandbox", "m"));
                it.record.suspended = true;
            },
            Some("NoSandbox"),
            "NoSandbox",
        );
    }

    #[test]
    fn what_is_shown_of_tools_is_what_is_permitted() {
        let mut plugin = plugin();
        assert_eq!(plugin.state().tools, ["look"]);
        assert!(plugin.permits("look") && !plugin.permits("feel"));
        plugin.record.permitted = vec!["*".to_owned()];
        assert_eq!(plugin.state().tools, ["look", "feel"]);
    }
}
