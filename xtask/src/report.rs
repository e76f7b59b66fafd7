//! What ran and how long it took.

use std::fmt::Write as _;
use std::time::Instant;

pub(crate) struct Report {
    parts: Vec<(String, u64)>,
    begun: Instant,
    part_begun: Instant,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { parts: Vec::new(), begun: Instant::now(), part_begun: Instant::now() }
    }

    /// A part has ended. It is said at once as well: a run that fails later has told how long it took
    /// so far.
    pub(crate) fn done(&mut self, part: &str) {
        let took = self.part_begun.elapsed().as_secs();
        println!("done after {took} s: {part}");
        self.parts.push((part.to_owned(), took));
        self.part_begun = Instant::now();
    }

    /// A table of all parts.
    pub(crate) fn table(&self) -> String {
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
        let mut report = Report::new();
        report.done("images");
        report.done("lints");
        let rows = ["| stage | seconds |", "|---|---|", "| images | 0 |", "| lints | 0 |"];
        assert_eq!(report.table(), format!("{}\n| in all | 0 |", rows.join("\n")));
    }
}
