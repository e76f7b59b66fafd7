//! What ran and how long it took.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

pub struct Report {
    parts: Vec<(String, u64)>,
    begun: Instant,
    part_begun: Instant,
}

impl Report {
    pub fn begin() -> Self {
        Self { parts: Vec::new(), begun: Instant::now(), part_begun: Instant::now() }
    }

    /// A part has ended. It is said at once as well: a run that fails later has told how long it took
    /// so far.
    pub fn done(&mut self, part: &str) {
        let took = self.part_begun.elapsed().as_secs();
        println!("done after {took} s: {part}");
        self.parts.push((part.to_owned(), took));
        self.part_begun = Instant::now();
    }

    /// Hands the parts over to a report in another process.
    pub fn write(&self, file: &Path) -> Result<()> {
        let line = |(part, took): &(String, u64)| format!("{took} {part}\n");
        fs::write(file, self.parts.iter().map(line).collect::<String>())
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Takes over the parts of a report in another process.
    pub fn read(&mut self, file: &Path) -> Result<()> {
        self.take(file, "")?;
        self.part_begun = Instant::now();
        Ok(())
    }

    /// The same of one that went on beside this one and is called so.
    pub fn read_beside(&mut self, what: &str, file: &Path) -> Result<()> {
        self.take(file, &format!("beside, {what}: "))
    }

    fn take(&mut self, file: &Path, before: &str) -> Result<()> {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        for line in text.lines() {
            let (took, part) = line.split_once(' ').context("a stage has no name")?;
            self.parts.push((format!("{before}{part}"), took.parse()?));
        }
        Ok(())
    }

    /// A table of all parts.
    pub fn table(&self) -> String {
        let mut table = String::from("| stage | seconds |\n|---|---|\n");
        for (part, took) in &self.parts {
            let _ = writeln!(table, "| {part} | {took} |");
        }
        let _ = write!(table, "| in all | {} |", self.begun.elapsed().as_secs());
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_a_row_and_their_sum_is_the_last() {
        let mut report = Report::begin();
        report.done("images");
        let (mut other, file) = (Report::begin(), tempfile::NamedTempFile::new().unwrap());
        other.done("a cluster, `suite`");
        other.write(file.path()).unwrap();
        report.read(file.path()).unwrap();
        report.read_beside("network", file.path()).unwrap();
        report.done("lints");
        let rows = [
            "| stage | seconds |",
            "|---|---|",
            "| images | 0 |",
            "| a cluster, `suite` | 0 |",
            "| beside, network: a cluster, `suite` | 0 |",
            "| lints | 0 |",
            "| in all | 0 |",
        ];
        assert_eq!(report.table(), rows.join("\n"));
    }
}
