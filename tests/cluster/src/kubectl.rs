//! kubectl, as an owner uses it.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

pub use crate::reads::{address, condition, is_ready, object, objects, ready_pod};

/// How long something may take to come true on a busy machine of two cores.
pub const LONG: Duration = Duration::from_mins(5);

/// Between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// Between two looks at what takes its time: on two cores looks take it from what they wait for.
const SLOW_LOOK: Duration = Duration::from_secs(1);

pub(crate) fn program() -> String {
    env::var("FAMULUS_TEST_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned())
}

/// The program.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What it says, or its complaint.
pub async fn tried(args: &[&str]) -> Result<String, String> {
    once(args, None).await
}

/// What it says, where it must succeed.
pub async fn kubectl(args: &[&str]) -> String {
    let said = asked(args, None).await;
    said.unwrap_or_else(|complaint| panic!("kubectl {args:?}: {complaint}"))
}

/// `kubectl ARGS -f -` with this on its standard input: what it says, or its complaint.
pub async fn fed(args: &[&str], text: &str) -> Result<String, String> {
    asked(&[args, &["-f", "-"]].concat(), Some(text)).await
}

/// Asks again where nobody looked at the request, for the API server is away or too busy: that is no
/// fault of what is tested.
async fn asked(args: &[&str], text: Option<&str>) -> Result<String, String> {
    /// What comes to the same if it was done already.
    const REPEATED: [&str; 7] = ["get", "apply", "delete", "scale", "patch", "label", "annotate"];
    const AWAY: [&str; 3] =
        ["Unable to connect to the server", "Error from server (Timeout)", "was refused"];

    let may_repeat = args.iter().any(|word| REPEATED.contains(word));
    let deadline = Instant::now() + LONG;
    loop {
        let said = once(args, text).await;
        let is_away = |complaint: &String| AWAY.iter().any(|sign| complaint.contains(sign));
        if !may_repeat || Instant::now() > deadline || !said.as_ref().is_err_and(is_away) {
            return said;
        }
        sleep(LOOK).await;
    }
}

async fn once(args: &[&str], text: Option<&str>) -> Result<String, String> {
    let mut command = command(args);
    command.stdin(if text.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if let (Some(mut stdin), Some(text)) = (child.stdin.take(), text) {
        stdin.write_all(text.as_bytes()).await.unwrap();
    }
    let output = child.wait_with_output().await.unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// `kubectl apply`; the complaint if it is refused.
pub async fn apply(namespace: &str, manifest: &str) -> Result<String, String> {
    fed(&["-n", namespace, "apply"], manifest).await
}

/// Waits until `look` finds something, looking ever more rarely, and fails with what it saw last.
pub async fn until<T, F>(what: &str, limit: Duration, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let (deadline, mut pause) = (Instant::now() + limit, LOOK);
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < deadline, "{what} within {limit:?}: {seen}"),
        }
        sleep(pause).await;
        pause = (pause * 5 / 4).min(SLOW_LOOK);
    }
}
