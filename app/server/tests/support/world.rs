//! One run: a database, a fleet on it, a counter, a receiver, and everybody's logs.

use crate::support::{
    checker::{self, Faults, leases},
    client::Client,
    counter::Counter,
    database::Database,
    deliveries::Receiver,
    fleet::Fleet,
    platforms::Platforms,
    workload::{Log, Person, Written},
};
use anyhow::{Result, bail, ensure};
use famulus_lifecycle::Tasks;
use famulus_models::scripted::Scripted;
use futures::FutureExt;
use std::{fs, panic::AssertUnwindSafe, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Violations that a failure lists: one fault often breaks many.
const SHOWN: usize = 40;

/// How a run is set up.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// A superuser's URL of the server.
    pub(crate) server: String,
    pub(crate) lease: Duration,
    /// Before each piece of what the model says.
    pub(crate) pace: Duration,
    /// Deaths in a row after which a turn is buried.
    pub(crate) max_attempts: u32,
    /// The safety that is taken out.
    pub(crate) sabotage: Option<&'static str>,
    /// Whether people write on a chat platform, too.
    pub(crate) chats: bool,
    /// Where plugins have their folders, if they have sandboxes of this machine.
    pub(crate) plugins: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            lease: Duration::from_secs(1),
            pace: Duration::from_millis(5),
            max_attempts: 5,
            sabotage: None,
            chats: false,
            plugins: None,
        }
    }
}

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) counter: Counter,
    pub(crate) receiver: Receiver,
    /// Who listens to recordings.
    pub(crate) listener: Scripted,
    /// Where people chat, if they do.
    pub(crate) platforms: Option<Platforms>,
    pub(crate) log: Arc<Log>,
    pub(crate) settings: Settings,
    folder: TempDir,
    tasks: Tasks,
}

impl World {
    /// Sets a world up, runs in it, and takes it down however the run ends. An error comes behind
    /// the ends of the processes' logs.
    pub(crate) async fn run<T>(
        settings: Settings,
        run: impl AsyncFnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let world = Self::open(settings).await?;
        let outcome = AssertUnwindSafe(run(&world)).catch_unwind().await;
        world.counter.hold(false);
        for place in world.fleet.taken() {
            world.fleet.kill(place).await?;
        }
        if let Some(platforms) = &world.platforms {
            platforms.stop().await;
        }
        world.tasks.shutdown();
        let _stragglers = world.tasks.drain(Duration::from_millis(200)).await;
        world.database.remove().await?;
        match outcome {
            Ok(Ok(done)) => Ok(done),
            // The trace leads to where it failed.
            Ok(Err(error)) => Err(error.context(world.fleet.logs())),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    async fn open(settings: Settings) -> Result<Self> {
        let tasks = Tasks::new();
        let folder = tempfile::tempdir()?;
        let counter = Counter::start(&tasks).await?;
        let receiver = Receiver::start(&tasks).await?;
        let listener = Scripted::start().await?;
        let database = Database::create(&settings.server).await?;
        let token = folder.path().join("token");
        let arguments = [
            ("--database", database.url.clone()),
            ("--token-file", token.display().to_string()),
            ("--counter", counter.address.to_string()),
            ("--webhook", receiver.url.clone()),
            ("--listener", listener.base_url().to_string()),
            ("--lease-ms", settings.lease.as_millis().to_string()),
            ("--pace-ms", settings.pace.as_millis().to_string()),
            ("--max-attempts", settings.max_attempts.to_string()),
        ];
        let platforms = if settings.chats { Some(Platforms::start().await?) } else { None };
        let there = platforms.iter().flat_map(Platforms::arguments);
        let plugins = settings.plugins.iter().map(|path| ("--plugins", path.display().to_string()));
        let arguments = arguments.into_iter().chain(there).chain(plugins);
        let arguments = arguments.flat_map(|(name, value)| [name.to_owned(), value]).collect();
        let variables = settings.sabotage.map(|safety| ("FAMULUS_SABOTAGE", safety.to_owned()));
        let logs = folder.path().to_owned();
        let fleet = Fleet::new(arguments, variables.into_iter().collect(), logs);
        Ok(Self {
            database,
            fleet: Arc::new(fleet),
            counter,
            receiver,
            listener,
            platforms,
            log: Arc::default(),
            settings,
            folder,
            tasks,
        })
    }

    /// Somebody with the owner's token, which the first process has made. From now on it is seen
    /// whether leases are kept.
    pub(crate) async fn person(&self) -> Result<Person> {
        leases::watch(&self.database.admin).await?;
        let token = fs::read_to_string(self.folder.path().join("token"))?;
        let client = Client::new(Arc::clone(&self.fleet), token.trim().to_owned())?;
        Ok(Person { client, log: Arc::clone(&self.log) })
    }

    /// Waits until nothing is left to do.
    pub(crate) async fn settle(&self, patience: Duration) -> Result<()> {
        const OPEN: &str = "select concat_ws(', ',
            (select count(*) || ' turns' from turn
             where state in ('queued', 'running', 'waiting') having count(*) > 0),
            (select count(*) || ' deliveries' from outbox
             where state in ('pending', 'sending')
                or (state = 'unknown' and turn_id is not null and not outcome_told)
             having count(*) > 0),
            (select count(*) || ' questions' from approval
             where question is not null and state <> 'pending' and not is_shown_closed
             having count(*) > 0),
            (select count(*) || ' schedules' from schedule
             where enabled and next_due is not null having count(*) > 0),
            (select count(*) || ' jobs' from queue_job where not dead having count(*) > 0))";
        let begun = Instant::now();
        loop {
            let unheard = self.unheard().await;
            match unheard {
                Ok(0) => break,
                Ok(_) | Err(_) if begun.elapsed() < patience => {
                    sleep(Duration::from_millis(30)).await;
                }
                Ok(left) => bail!("after {patience:?} {left} messages were not heard"),
                Err(error) => return Err(error),
            }
        }
        loop {
            let open: Result<String, _> =
                sqlx::query_scalar(OPEN).fetch_one(&self.database.admin).await;
            match open {
                Ok(open) if open.is_empty() => return Ok(()),
                // Postgres may be what was killed.
                Ok(_) | Err(_) if begun.elapsed() < patience => {
                    sleep(Duration::from_millis(30)).await;
                }
                Ok(open) => bail!("after {patience:?} there are still open: {open}"),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Messages that a platform still has to tell, or has told to somebody who listens and did not keep
    /// them yet.
    async fn unheard(&self) -> Result<usize> {
        let Some(platforms) = &self.platforms else { return Ok(0) };
        let open = platforms.signal.in_open_streams();
        let mut written = self.log.written();
        written.retain(|one| one.told.is_some_and(|told| open.contains(&told)));
        Ok(platforms.unheard() + self.missing(&written).await?)
    }

    /// Whether what was written on Signal, which tells nothing twice, is nowhere: no process has it, none
    /// will be told, and nothing waits to be read.
    pub(crate) async fn is_gone(&self, told: i64) -> Result<bool> {
        const KEPT: &str = "select exists (select from arrival) or exists (select from pairing)";
        let Some(platforms) = &self.platforms else { return Ok(false) };
        if platforms.unheard() > 0 || platforms.signal.in_open_streams().contains(&told) {
            return Ok(false);
        }
        let is_kept: bool = sqlx::query_scalar(KEPT).fetch_one(&self.database.admin).await?;
        Ok(!is_kept)
    }

    /// How many messages are not stored.
    pub(crate) async fn missing(&self, written: &[Written]) -> Result<usize> {
        const MISSING: &str = "select count(*) from unnest($1::text[]) as mark
            where not exists (select from message
                              where role = 'user' and position(mark in body) > 0)";
        let marks: Vec<String> = written.iter().map(|one| format!("msg {}:", one.number)).collect();
        let missing: i64 =
            sqlx::query_scalar(MISSING).bind(marks).fetch_one(&self.database.admin).await?;
        Ok(missing as usize)
    }

    /// What is wrong with the settled world; empty when nothing is.
    pub(crate) async fn violations(&self, faults: Faults) -> Result<Vec<String>> {
        checker::check(self, faults).await
    }

    /// Fails unless everything is as it must be.
    pub(crate) async fn check(&self, faults: Faults) -> Result<()> {
        let violations = self.violations(faults).await?;
        let shown: Vec<&str> = violations.iter().take(SHOWN).map(String::as_str).collect();
        let count = violations.len();
        ensure!(violations.is_empty(), "{count} violations:\n  {}", shown.join("\n  "));
        Ok(())
    }
}
