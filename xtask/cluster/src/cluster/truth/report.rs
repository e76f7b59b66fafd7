//! What was checked, and what came of it.

use std::time::Instant;

use anyhow::{Result, bail};

/// Checks that ran, in their order.
pub(super) struct Report {
    passed: u32,
    failed: Vec<String>,
    begun: Instant,
}

impl Default for Report {
    fn default() -> Self {
        Self { passed: 0, failed: Vec::new(), begun: Instant::now() }
    }
}

impl Report {
    /// Tells at once what holds, with a detail, or why it does not.
    pub(super) fn note(&mut self, what: &str, outcome: Result<String>) {
        match outcome {
            Ok(detail) => {
                self.passed += 1;
                let dash = if detail.is_empty() { "" } else { " - " };
                println!("ok      {what}{dash}{detail}");
            }
            Err(error) => {
                println!("FAILED  {what}: {error:#}");
                self.failed.push(what.to_owned());
            }
        }
    }

    pub(super) fn finish(self) -> Result<()> {
        println!("{} s in all", self.begun.elapsed().as_secs());
        println!("{} passed, {} failed", self.passed, self.failed.len());
        if !self.failed.is_empty() {
            bail!("does not hold: {}", self.failed.join("; "));
        }
        Ok(())
    }
}
