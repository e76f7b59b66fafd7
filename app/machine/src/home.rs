//! The port of `app/sandbox`: finds, starts and ends runners.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use famulus_core::Clock as _;
use famulus_core::clock::SystemClock;
use famulus_core::runner::Origin;
use famulus_core::sandbox::SandboxError;
use famulus_lifecycle::OnExit;
use famulus_sandbox::{Conduct, Home, KnownPlugin as _, Liveness, ScaleError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::error::MachineError;
use crate::launcher::{Launcher, Log};
use crate::machine::Machine;
use crate::mounted::give;
use crate::order::{Purpose, launch, network};
use crate::plugin::{Failed, LocalPlugin, not_ready};
use crate::runner::LocalRunner;
use crate::table::Table;

/// Between two looks whether a runner serves, at first and at last.
const LOOK: Duration = Duration::from_millis(10);
const LOOK_LATER: Duration = Duration::from_millis(500);

/// What a runner that is asked to end has for its calls, and what it has when the assistant ends.
const DRAIN: Duration = Duration::from_secs(330);
const LAST: Duration = Duration::from_secs(3);

/// How long one that ends is waited for before another one is started in its place.
const REPLACED: Duration = Duration::from_secs(10);

/// The pause behind the second runner in a row that ended by itself; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

#[async_trait]
impl Home for Machine {
    type Plugin = LocalPlugin;
    type Runner = LocalRunner;

    async fn known(&self, _patience: Duration) -> Result<(), SandboxError> {
        Ok(())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.table.subscribe()
    }

    fn plugins(&self) -> BTreeMap<String, Arc<LocalPlugin>> {
        self.table.plugins()
    }

    fn plugin(&self, name: &str) -> Option<Arc<LocalPlugin>> {
        self.table.plugin(name)
    }

    fn plugin_by_uid(&self, uid: &str) -> Option<Arc<LocalPlugin>> {
        self.table.by_uid(uid)
    }

    fn runners(&self, plugin: &LocalPlugin) -> Vec<Arc<LocalRunner>> {
        self.table.runners(plugin.uid())
    }

    fn has(&self, runner: &LocalRunner) -> bool {
        self.table.has(runner)
    }

    fn lets(&self, plugin: &LocalPlugin, runner: &LocalRunner) -> bool {
        plugin.record.egress == runner.egress
    }

    /// Nobody calls over the network here.
    fn owns(&self, plugin: &LocalPlugin, from: &Origin) -> bool {
        match from {
            Origin::Door(uid) => **uid == *plugin.uid(),
            Origin::Address(_) => false,
        }
    }

    fn bearer(&self, plugin: &LocalPlugin, _rendered: i64) -> String {
        plugin.bearer.clone()
    }

    async fn start(&self, plugin: &LocalPlugin) -> Result<(), ScaleError> {
        let uid = plugin.uid();
        let upkeep = self.upkeep(uid);
        let _one = upkeep.starting.lock().await;
        if let Some(why) = &self.refused {
            return Err(ScaleError::Refused(why.message.clone().into()));
        }
        let now = self.table.by_uid(uid).ok_or(ScaleError::Changed)?;
        if let Some(failed) = now.failed.as_ref().filter(|failed| Instant::now() < failed.until) {
            return Err(ScaleError::Refused(failed.why.message.clone().into()));
        }
        let wants = |now: Option<&LocalPlugin>| {
            now.map(|now| LocalPlugin { wants_runner: true, ..now.clone() })
        };
        let now = self.table.put(uid, wants).ok_or(ScaleError::Changed)?;
        if self.table.runners(uid).iter().any(|runner| !runner.end.is_cancelled()) {
            return Ok(());
        }
        let replaced = timeout(REPLACED, self.is_alone(uid)).await;
        let ending = || ScaleError::Refused("the runner before it has not ended yet".into());
        replaced.map_err(|_elapsed| ending())?;
        let served = self.serve(&now).await;
        served.map_err(|error| {
            let why = error.to_string();
            self.table.put(uid, |now| now.map(|now| now.with_failure(why)));
            ScaleError::Refused(Box::new(error))
        })
    }

    async fn end(&self, plugin: &LocalPlugin) -> Result<(), ScaleError> {
        let ended = self.table.put(plugin.uid(), |now| {
            let same = now.filter(|now| now.version == plugin.version)?;
            Some(LocalPlugin { wants_runner: false, ..same.clone() })
        });
        ended.ok_or(ScaleError::Changed)?;
        for runner in self.table.runners(plugin.uid()) {
            runner.end.cancel();
        }
        Ok(())
    }

    async fn logs(&self, runner: &LocalRunner) -> Result<Vec<String>, String> {
        Ok(runner.log.lines())
    }
}

impl Machine {
    /// Waits until nobody serves the plugin.
    async fn is_alone(&self, uid: &str) {
        let mut changes = self.table.subscribe();
        while !self.table.runners(uid).is_empty() {
            // The sender lives as long as the table.
            let _changed = changes.changed().await;
        }
    }

    /// Starts a sandbox that serves the plugin.
    async fn serve(&self, plugin: &LocalPlugin) -> Result<(), MachineError> {
        let (name, uid) = (plugin.name(), plugin.uid());
        let folders = self.folders.of(uid);
        let user = self.folders.take(&folders, Purpose::Serve).await?;
        self.open_door(uid, &folders, user).await?;
        give(plugin, &folders, user)?;
        let egress = plugin.record.egress;
        let network = network(egress, Vec::new());
        let of = self.of(name, &folders, user);
        let uv = self.shown_uv(Purpose::Serve).await;
        let order = launch(Purpose::Serve, &of, &self.settings, uv.as_deref(), network);
        let launcher = Launcher::start(&self.settings.runner, &order, &self.tasks)?;
        let runner = Arc::new(LocalRunner {
            name: name.to_owned(),
            plugin: uid.to_owned(),
            created: SystemClock.now(),
            socket: folders.runner_socket(),
            egress,
            log: launcher.log(),
            end: CancellationToken::new(),
            kill: CancellationToken::new(),
            ready: false.into(),
            before: None,
            conduct: Conduct::default(),
        });
        self.table.add_runner(&runner);
        let (table, liveness) = (Arc::clone(&self.table), self.liveness.clone());
        let shutdown = self.tasks.token();
        self.tasks.spawn("sandbox.runner", OnExit::Log, async move {
            attend(&table, &runner, launcher, &liveness, shutdown).await;
        });
        Ok(())
    }
}

/// Looks after a sandbox until it has ended.
async fn attend(
    table: &Table,
    runner: &Arc<LocalRunner>,
    mut launcher: Launcher,
    liveness: &Liveness,
    shutdown: CancellationToken,
) {
    let mut until: Option<Instant> = None;
    let ended = loop {
        let is_ready = runner.ready.load(Ordering::Relaxed);
        let overdue = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let serves = async {
            let mut pause = LOOK;
            while !liveness.of(&**runner).await {
                sleep(pause).await;
                pause = (pause * 5 / 4).min(LOOK_LATER);
            }
        };
        let ends_later = until.is_none_or(|until| until > Instant::now() + LAST);
        tokio::select! {
            ended = launcher.exited() => break Some(ended),
            () = runner.kill.cancelled() => break None,
            () = overdue => break None,
            () = runner.end.cancelled(), if until.is_none() => {
                launcher.terminate();
                until = Some(Instant::now() + DRAIN);
            }
            () = shutdown.cancelled(), if ends_later => {
                runner.end.cancel();
                launcher.terminate();
                until = Some(Instant::now() + LAST);
            }
            () = serves, if !is_ready => {
                runner.ready.store(true, Ordering::Relaxed);
                table.put(&runner.plugin, |now| {
                    now.map(|now| LocalPlugin { failed: None, ..now.clone() })
                });
            }
        }
    };
    let by_itself = until.is_none();
    // No call goes there from now on.
    runner.end.cancel();
    match ended {
        None => launcher.kill().await,
        Some(ended) if by_itself => {
            let why = why_ended(&launcher, &runner.log, ended).await;
            tracing::warn!(plugin.name = runner.name, why, "a runner ended by itself");
            table.put(&runner.plugin, |now| now.map(|now| now.with_failure(why)));
        }
        Some(_asked) => {}
    }
    table.remove_runner(runner);
}

/// Why a runner ended that nobody asked to, for the owner.
async fn why_ended(launcher: &Launcher, log: &Log, ended: io::Result<ExitStatus>) -> String {
    let status = match ended {
        Ok(status) => status,
        Err(error) => return format!("its runner cannot be waited for: {error}"),
    };
    if let Some(why) = launcher.refusal(status).await {
        return format!("no sandbox can be made: {why}");
    }
    let said = log.last().unwrap_or_else(|| "it said nothing".to_owned());
    format!("its runner ended by itself ({status}): {said}")
}

impl LocalPlugin {
    /// The same behind a runner that ended by itself.
    fn with_failure(&self, why: String) -> Self {
        let times = self.failed.as_ref().map_or(0, |failed| failed.times);
        // One that served may come again at once.
        let doubled = 1_u32 << times.min(10) >> 1;
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        let failed = Failed {
            times: times.saturating_add(1),
            until: Instant::now() + pause,
            why: not_ready("RunnerFailing", why),
        };
        Self { failed: Some(failed), wants_runner: false, ..self.clone() }
    }
}
