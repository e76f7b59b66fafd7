//! kubectl, as an owner uses it.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

/// How long something may take to come true on a busy machine of two cores.
pub const LONG: Duration = Duration::from_mins(3);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// The program.
pub fn command(args: &[&str]) -> Command {
    let program = env::var("FAMULUS_TEST_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What it says, or its complaint.
pub async fn tried(args: &[&str]) -> Result<String, String> {
    let output = command(args).output().await.unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What it says, where it must succeed. Where the API server is away or too busy to answer, a question
/// is asked again: that is no fault of what is tested.
pub async fn kubectl(args: &[&str]) -> String {
    let deadline = Instant::now() + LONG;
    loop {
        let complaint = match tried(args).await {
            Ok(said) => return said,
            Err(complaint) => complaint,
        };
        let again = args.contains(&"get") && is_away(&complaint) && Instant::now() < deadline;
        assert!(again, "kubectl {args:?}: {complaint}");
        sleep(LOOK).await;
    }
}

/// Whether nobody looked at the request.
fn is_away(complaint: &str) -> bool {
    ["Unable to connect to the server", "Error from server (Timeout)", "was refused"]
        .iter()
        .any(|sign| complaint.contains(sign))
}

/// An object, if it is there.
pub async fn object(namespace: &str, kind: &str, name: &str) -> Option<Value> {
    let args = ["-n", namespace, "get", kind, name, "--ignore-not-found", "-o", "json"];
    let said = kubectl(&args).await;
    (!said.trim().is_empty()).then(|| serde_json::from_str(&said).unwrap())
}

/// The objects with a label; without one, all of them.
pub async fn objects(namespace: &str, kind: &str, selector: &str) -> Vec<Value> {
    let said = kubectl(&["-n", namespace, "get", kind, "-l", selector, "-o", "json"]).await;
    let list: Value = serde_json::from_str(&said).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// `kubectl ARGS -f -` with this on its standard input: what it says, or its complaint.
pub async fn fed(args: &[&str], text: &str) -> Result<String, String> {
    let mut command = command(&[args, &["-f", "-"]].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// `kubectl apply`; the complaint if it is refused.
pub async fn apply(namespace: &str, manifest: &str) -> Result<String, String> {
    fed(&["-n", namespace, "apply"], manifest).await
}

/// Waits until `look` finds something, and fails with what it saw last.
pub async fn until<T, F>(what: &str, limit: Duration, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + limit;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < deadline, "{what} within {limit:?}: {seen}"),
        }
        sleep(LOOK).await;
    }
}
