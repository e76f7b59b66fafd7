//! The processes of one run: started, killed, stopped and continued, each in its place.

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use std::{
    fmt::Write as _,
    fs::{self, File},
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;

/// A loaded machine starts a process that migrates an empty database in less.
const READY: Duration = Duration::from_mins(1);
/// A process that is asked to end has done so after less.
const DRAINED: Duration = Duration::from_secs(20);
/// Lines of a log that a failure shows.
const SHOWN: usize = 30;

/// Starts processes with the same arguments, each in a numbered place.
pub(crate) struct Fleet {
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    folder: PathBuf,
    places: Mutex<Vec<Option<Running>>>,
    started: AtomicU32,
}

struct Running {
    child: Child,
    pid: Pid,
    ready: Ready,
}

/// What a process says when it serves.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Ready {
    public: SocketAddr,
    worker: Uuid,
}

impl Fleet {
    pub(crate) fn new(
        arguments: Vec<String>,
        variables: Vec<(&'static str, String)>,
        folder: PathBuf,
    ) -> Self {
        Self { arguments, variables, folder, places: Mutex::default(), started: AtomicU32::new(0) }
    }

    /// Starts a process in a place that is free, and waits until it serves.
    pub(crate) async fn start(&self, place: usize) -> Result<()> {
        self.start_with(place, &[]).await
    }

    pub(crate) async fn start_with(&self, place: usize, variables: &[(&str, &str)]) -> Result<()> {
        self.start_as(place, None, variables).await
    }

    /// Starts a process that may be configured otherwise: without an argument.
    pub(crate) async fn start_as(
        &self,
        place: usize,
        without: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<()> {
        let pairs = self.arguments.chunks(2).filter(|pair| Some(pair[0].as_str()) != without);
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let log = File::create(self.folder.join(format!("{number:05}-in-{place}.log")))?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_famulus-harness"))
            .args(pairs.flatten())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("famulus-harness cannot be started")?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid as i32)).context("it has no pid")?;
        let stdout = child.stdout.take().context("it has no standard output")?;
        let mut line = String::new();
        let read = timeout(READY, BufReader::new(stdout).read_line(&mut line)).await;
        let ready = match read {
            Ok(Ok(_)) => serde_json::from_str(&line),
            Ok(Err(error)) => bail!("process {number} cannot be read: {error}"),
            Err(_elapsed) => bail!("process {number} was not ready within {READY:?}"),
        };
        let ready = ready
            .with_context(|| format!("process {number} did not start: {}", self.tail(number)))?;
        let mut places = self.places.lock();
        while places.len() <= place {
            places.push(None);
        }
        places[place] = Some(Running { child, pid, ready });
        Ok(())
    }

    /// Starts a process although the database may be away for a moment.
    pub(crate) async fn start_in_time(&self, place: usize) -> Result<()> {
        let begun = Instant::now();
        loop {
            match self.start(place).await {
                Ok(()) => return Ok(()),
                Err(error) if begun.elapsed() > READY => return Err(error),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Ends the process of a place at once, whatever it does; false when the place is free.
    pub(crate) async fn kill(&self, place: usize) -> Result<bool> {
        let running = self.places.lock().get_mut(place).and_then(Option::take);
        let Some(mut running) = running else { return Ok(false) };
        running.child.kill().await?;
        Ok(true)
    }

    /// Asks the process of a place to end, and waits until it has handed its work over; false when
    /// the place is free.
    pub(crate) async fn end(&self, place: usize) -> Result<bool> {
        let running = self.places.lock().get_mut(place).and_then(Option::take);
        let Some(mut running) = running else { return Ok(false) };
        kill_process(running.pid, Signal::TERM)?;
        let ended = timeout(DRAINED, running.child.wait()).await;
        let status = ended.context("a process that was asked to end did not")??;
        ensure!(status.success(), "a process that was asked to end ended with {status}");
        Ok(true)
    }

    /// Sends a signal to the process of a place; false when the place is free.
    pub(crate) fn signal(&self, place: usize, signal: Signal) -> Result<bool> {
        let places = self.places.lock();
        let Some(Some(running)) = places.get(place) else { return Ok(false) };
        kill_process(running.pid, signal)?;
        Ok(true)
    }

    /// Whether the process of a place stands still; false when the place is free.
    pub(crate) fn stands_still(&self, place: usize) -> Result<bool> {
        let places = self.places.lock();
        let Some(Some(running)) = places.get(place) else { return Ok(false) };
        let stat = fs::read_to_string(format!("/proc/{}/stat", running.pid))?;
        // Behind the name, which may hold anything but ends with the last bracket.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        Ok(state == Some('T'))
    }

    /// How the process of a place ended, and frees the place; `None` while it runs.
    pub(crate) fn ended(&self, place: usize) -> Result<Option<ExitStatus>> {
        let mut places = self.places.lock();
        let Some(slot) = places.get_mut(place) else { return Ok(None) };
        let Some(running) = slot else { return Ok(None) };
        let status = running.child.try_wait()?;
        if status.is_some() {
            *slot = None;
        }
        Ok(status)
    }

    /// The places that are taken.
    pub(crate) fn taken(&self) -> Vec<usize> {
        let places = self.places.lock();
        let taken = places.iter().enumerate().filter(|(_, running)| running.is_some());
        taken.map(|(place, _)| place).collect()
    }

    /// Where each process listens.
    pub(crate) fn addresses(&self) -> Vec<(usize, SocketAddr)> {
        let places = self.places.lock();
        let each = places.iter().enumerate();
        each.filter_map(|(place, running)| Some((place, running.as_ref()?.ready.public))).collect()
    }

    /// The place of the process that the queue knows by this id.
    pub(crate) fn place_of(&self, worker: Uuid) -> Option<usize> {
        let is_it = |running: &Option<Running>| {
            running.as_ref().is_some_and(|running| running.ready.worker == worker)
        };
        self.places.lock().iter().position(is_it)
    }

    /// The ends of the latest logs, for a failure.
    pub(crate) fn logs(&self) -> String {
        let started = self.started.load(Ordering::Relaxed);
        let mut text = String::new();
        for number in started.saturating_sub(4)..started {
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "--- process {number}\n{}", self.tail(number));
        }
        text
    }

    fn tail(&self, number: u32) -> String {
        let prefix = format!("{number:05}-");
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut of_it = entries.filter(|e| e.file_name().to_string_lossy().starts_with(&prefix));
        let text = of_it.next().and_then(|entry| fs::read_to_string(entry.path()).ok());
        let text = text.unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }
}
