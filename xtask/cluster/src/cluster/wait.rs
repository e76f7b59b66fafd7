//! Waiting for something to become true, with an end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Short beside the start of a node, long beside one look.
const EVERY: Duration = Duration::from_millis(100);

/// Looks again and again until there is a value. An error of the look ends the wait.
pub(super) async fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(value) = look()? {
            return Ok(value);
        }
        if begun.elapsed() > limit {
            bail!("{what} did not come within {} s", limit.as_secs());
        }
        tokio::time::sleep(EVERY).await;
    }
}
