//! The supervisor: starts the tool, watches it, and ends all that came of it before it reports.
//!
//! Plain threads and one channel: each thread waits for one thing, the main one decides.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{
    Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitCode, ExitStatus, Stdio,
};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use famulus_protocol::Isolation;
use rustix::io::Errno;
use rustix::param::page_size;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitId, WaitIdOptions, getpid, set_child_subreaper,
    set_dumpable_behavior, waitid,
};

use super::capture::{Head, Tail, lossy};
use super::descriptors::close_on_exec;
use super::launch::{LaunchReport, NOT_STARTED};
use super::processes::{Ended, KILLED, descendants, end_all, kill_all, kill_group, reap, signal};
use super::{Captured, End, Frame, Job, LAUNCH, MemoryWatch, OutputLimits, Report};

/// How often the processes of the tool are counted.
const COUNT: Duration = Duration::from_millis(100);

/// How long the pipes are waited for when nobody who could write is left.
const DRAIN: Duration = Duration::from_secs(2);

/// Events on their way to the main thread. When it is full, pieces of standard error are left out,
/// and every other sender waits.
const EVENTS: usize = 64;

/// The longest line that `launch` writes.
const LONGEST_LINE: u64 = 16 * 1024;

/// What one of the threads saw.
enum Event {
    Ready(Isolation),
    StderrPiece(String),
    Exited,
    /// Nobody wants the call any more.
    Unwanted,
    Stdout(Captured),
    Stderr(Captured),
}

/// The life of a supervisor: a job on standard input, frames on standard output.
pub(super) fn supervise() -> ExitCode {
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    if input.read_line(&mut line).is_err() {
        return ExitCode::FAILURE;
    }
    let Ok(job) = serde_json::from_str::<Job>(&line) else { return ExitCode::FAILURE };
    drop(line);
    let begun = Instant::now();
    let killed_before = job.memory.as_ref().map_or(0, MemoryWatch::killed);
    let report = match prepare().and_then(|own| Ok((own, start(&job)?))) {
        Ok((own, child)) => Watch::over(child, &job, own, begun, killed_before, input).report(),
        Err(error) => Report {
            end: End::NotStarted(format!("the supervisor failed: {error}")),
            stdout: Captured::default(),
            stderr: Captured::default(),
            strays: 0,
            forced: false,
            millis: 0,
        },
    };
    write(&Frame::Report(report));
    ExitCode::SUCCESS
}

fn prepare() -> io::Result<Pid> {
    let own = getpid();
    // Kept from here on: where the kernel tells it by a file alone, as gVisor does, that file is
    // root's as soon as this process is not dumpable.
    let _size = page_size();
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_child_subreaper(Some(own))?;
    close_on_exec()?;
    Ok(own)
}

fn start(job: &Job) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .arg(LAUNCH)
        .arg(serde_json::to_string(&job.order)?)
        .env_clear()
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// A tool that runs, and what is known of it so far.
struct Watch<'a> {
    job: &'a Job,
    own: Pid,
    /// Asked for its end by the main thread alone: until then its number is its own.
    child: Child,
    tool: Pid,
    begun: Instant,
    /// Whom the kernel had killed for the lack of memory before.
    killed_before: u64,
    events: Receiver<Event>,
    ready: bool,
    status: Option<io::Result<ExitStatus>>,
    /// Who was killed beside the tool, by whomever.
    killed: u32,
    /// Why it is being ended, when it is.
    ending: Option<Ending>,
    stdout: Option<Captured>,
    stderr: Option<Captured>,
    forced: bool,
}

struct Ending {
    end: End,
    kill_at: Instant,
}

impl<'a> Watch<'a> {
    fn over(
        mut child: Child,
        job: &'a Job,
        own: Pid,
        begun: Instant,
        killed_before: u64,
        control: BufReader<io::Stdin>,
    ) -> Self {
        let (sender, events) = sync_channel(EVENTS);
        let tool = Pid::from_child(&child);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if let (Some(stdin), Some(stdout), Some(stderr)) = pipes {
            let input = job.input.clone();
            thread::spawn(move || feed(stdin, &input));
            let OutputLimits { stdout_bytes, stderr_bytes } = job.output;
            let to = sender.clone();
            thread::spawn(move || read_stdout(stdout, stdout_bytes, &to));
            let to = sender.clone();
            thread::spawn(move || read_stderr(stderr, stderr_bytes, &to));
        }
        let to = sender.clone();
        thread::spawn(move || {
            wait_for_end(tool);
            // Without a receiver the supervisor is about to end.
            let _gone = to.send(Event::Exited);
        });
        thread::spawn(move || wait_until_unwanted(control, &sender));
        Self {
            job,
            own,
            child,
            tool,
            begun,
            killed_before,
            events,
            ready: false,
            status: None,
            killed: 0,
            ending: None,
            stdout: None,
            stderr: None,
            forced: false,
        }
    }

    fn report(mut self) -> Report {
        self.until_it_ends();
        let Ended { strays, killed } = match end_all(self.own) {
            Ok(ended) => ended,
            Err(surviving) => Ended { strays: surviving.count, killed: 0 },
        };
        self.killed += killed;
        self.until_drained();
        let stdout = self.stdout.take().unwrap_or_default();
        let end = self.end(&stdout);
        let stdout = if self.ready && !matches!(end, End::NotStarted(_)) {
            stdout
        } else {
            Captured::default()
        };
        Report {
            end,
            stdout,
            stderr: self.stderr.unwrap_or_default(),
            strays,
            forced: self.forced,
            millis: self.begun.elapsed().as_millis() as u64,
        }
    }

    /// Until the tool's own process has ended, by itself or because it was made to.
    fn until_it_ends(&mut self) {
        let deadline = self.begun + Duration::from_millis(self.job.deadline_millis);
        let mut next_count = self.begun + COUNT;
        while self.status.is_none() {
            let until = self.ending.as_ref().map_or(deadline, |ending| ending.kill_at);
            let wait = until.min(next_count).saturating_duration_since(Instant::now());
            match self.events.recv_timeout(wait) {
                Ok(event) => self.note(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if now >= deadline {
                self.ask_to_end(End::Deadline);
            }
            if self.ending.as_ref().is_some_and(|ending| now >= ending.kill_at) {
                self.kill();
            }
            if now >= next_count {
                self.count();
                next_count = now + COUNT;
            }
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Ready(isolation) => {
                self.ready = true;
                write(&Frame::Started(isolation));
            }
            Event::StderrPiece(text) => write(&Frame::Said(text)),
            Event::Exited => self.status = Some(self.child.wait()),
            Event::Unwanted => self.ask_to_end(End::Cancelled),
            Event::Stdout(captured) => self.stdout = Some(captured),
            Event::Stderr(captured) => self.stderr = Some(captured),
        }
    }

    /// Asks once; the first reason counts, and none when it has ended by itself.
    fn ask_to_end(&mut self, end: End) {
        if self.ending.is_none() && self.status.is_none() {
            signal(&descendants(self.own).found, Signal::TERM);
            let grace = Duration::from_millis(self.job.grace_millis);
            self.ending = Some(Ending { end, kill_at: Instant::now() + grace });
        }
    }

    /// Kills all there is now, and again at the next count if the tool is still there.
    fn kill(&mut self) {
        self.forced = true;
        kill_group(self.tool);
        kill_all(self.own);
        if let Some(ending) = &mut self.ending {
            ending.kill_at = Instant::now() + COUNT;
        }
    }

    /// Holds the tool to its number of processes and the container to its memory.
    fn count(&mut self) {
        let all = descendants(self.own).found;
        self.killed += reap(&all, self.own, self.tool);
        // How it ended is on its way.
        if all.iter().any(|one| one.ended && one.pid == self.tool.as_raw_nonzero().get()) {
            return;
        }
        let living = all.iter().filter(|process| !process.ended);
        let (count, pages) = living.fold((0_u32, 0_u64), |(count, pages), process| {
            (count + 1, pages.saturating_add(process.pages))
        });
        let too_many = (count > self.job.processes).then_some(End::Processes(count));
        let bytes = pages.saturating_mul(page_size() as u64);
        let is_full = |watch: &MemoryWatch| {
            watch.is_reached(bytes) || watch.has_killed_for(bytes, self.killed_before)
        };
        let too_much = || self.job.memory.as_ref().is_some_and(is_full).then_some(End::Memory);
        if let Some(end) = too_many.or_else(too_much)
            && self.ending.is_none()
            && self.status.is_none()
        {
            // What grows is not asked first.
            self.ending = Some(Ending { end, kill_at: Instant::now() });
            self.kill();
        }
    }

    /// Nobody is left who could write, so that both pipes end.
    fn until_drained(&mut self) {
        let until = Instant::now() + DRAIN;
        while self.stdout.is_none() || self.stderr.is_none() {
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(event) => self.note(event),
                Err(_late) => return,
            }
        }
    }

    fn end(&mut self, stdout: &Captured) -> End {
        if let Some(ending) = self.ending.take() {
            return ending.end;
        }
        // Whether it did its work is not known then, and so it did not.
        let Some(Ok(status)) = self.status else {
            return End::NotStarted("its process cannot be waited for".to_owned());
        };
        if status.code() == Some(NOT_STARTED.into())
            && let Ok(LaunchReport::Failed(why)) = serde_json::from_str(stdout.text.trim_end())
        {
            return End::NotStarted(why);
        }
        let killed = self.job.memory.as_ref().map_or(0, MemoryWatch::killed);
        let by_kernel = killed > self.killed_before;
        match (status.code(), status.signal()) {
            // The kernel was faster than the count.
            (_, Some(KILLED)) if by_kernel && self.killed > self.job.processes => {
                End::Processes(self.killed)
            }
            (_, Some(KILLED)) if by_kernel => End::Memory,
            (Some(code), _) => End::Exited(code),
            (None, Some(signal)) => End::Signalled(signal),
            (None, None) => End::NotStarted("it ended in an unknown way".to_owned()),
        }
    }
}

/// Until the tool has ended, and has not been asked how. One that was killed takes its group along.
fn wait_for_end(tool: Pid) {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = loop {
        match waitid(WaitId::Pid(tool), how) {
            Err(Errno::INTR) => {}
            status => break status,
        }
    };
    if let Ok(Some(status)) = status
        && status.terminating_signal() == Some(KILLED)
    {
        kill_group(tool);
    }
}

/// A tool that does not read its input is none that failed.
fn feed(mut stdin: ChildStdin, input: &str) {
    let _unread = stdin.write_all(input.as_bytes());
}

/// The first line is what `launch` says; what follows is the tool's.
fn read_stdout(stdout: ChildStdout, limit: usize, to: &SyncSender<Event>) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    let read = (&mut stdout).take(LONGEST_LINE).read_until(b'\n', &mut line);
    let mut head = Head::new(limit);
    match read.ok().and_then(|_| serde_json::from_slice(&line).ok()) {
        Some(LaunchReport::Ready(isolation)) => {
            let _gone = to.send(Event::Ready(isolation));
        }
        // It failed before it was ready: the line is the reason.
        Some(LaunchReport::Failed(_)) | None => head.add(&line),
    }
    read_pieces(stdout, |piece| head.add(piece));
    let _gone = to.send(Event::Stdout(head.finish()));
}

fn read_stderr(stderr: ChildStderr, limit: usize, to: &SyncSender<Event>) {
    let mut tail = Tail::new(limit);
    read_pieces(stderr, |piece| {
        tail.add(piece);
        // A full channel leaves the piece out: the report has it.
        let _full = to.try_send(Event::StderrPiece(lossy(piece.to_vec())));
    });
    let _gone = to.send(Event::Stderr(tail.finish()));
}

fn read_pieces(mut from: impl Read, mut each: impl FnMut(&[u8])) {
    let mut piece = vec![0; 16 * 1024];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return,
            Ok(read) => each(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_broken) => return,
        }
    }
}

/// The runner closes the pipe when it cancels, and the kernel does when the runner dies.
fn wait_until_unwanted(mut control: BufReader<io::Stdin>, to: &SyncSender<Event>) {
    let mut nothing = [0];
    while control.read(&mut nothing).is_ok_and(|read| read > 0) {}
    let _gone = to.send(Event::Unwanted);
}

fn write(frame: &Frame) {
    // When the runner is gone, so is the reader; the end of standard input tells the same.
    if let Ok(mut line) = serde_json::to_vec(frame) {
        line.push(b'\n');
        let mut output = io::stdout().lock();
        let _gone = output.write_all(&line).and_then(|()| output.flush());
    }
}
