//! The results of all runs, in memory and as files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// How the runs become one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Median,
    /// The largest: for latencies at the far end and for whatever should be small.
    Worst,
}

/// Where a figure lies: a measurement, and a JSON pointer into its result.
pub(super) type Source = (&'static str, &'static str);

pub(super) struct Record {
    results: BTreeMap<&'static str, Vec<Value>>,
    folder: Option<PathBuf>,
}

impl Record {
    /// Raw results, histograms included, are kept in `folder` until the next benchmark.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self { results: BTreeMap::new(), folder: Some(folder.to_owned()) })
    }

    pub(super) fn add(&mut self, run: u32, name: &'static str, result: Value) -> Result<()> {
        if let Some(folder) = &self.folder {
            let file = folder.join(format!("{}-{run}.json", name.replace(' ', "-")));
            fs::write(&file, result.to_string())?;
        }
        self.results.entry(name).or_default().push(result);
        Ok(())
    }

    pub(super) fn runs(&self, name: &str) -> usize {
        self.results.get(name).map_or(0, Vec::len)
    }

    /// What lies there in the last run.
    pub(super) fn last(&self, source: Source) -> Option<&Value> {
        let (name, pointer) = source;
        self.results.get(name)?.last()?.pointer(pointer)
    }

    /// The figure over all runs; `None` when it was not measured.
    pub(super) fn figure(&self, source: Source, over: Over) -> Option<f64> {
        let (name, pointer) = source;
        let results = self.results.get(name)?;
        let mut values: Vec<f64> =
            results.iter().filter_map(|result| result.pointer(pointer)?.as_f64()).collect();
        values.sort_by(f64::total_cmp);
        match over {
            Over::Worst => values.last().copied(),
            Over::Median => {
                let middle = values.len() / 2;
                if values.len() % 2 == 1 {
                    values.get(middle).copied()
                } else {
                    Some(values.get(middle)?.midpoint(*values.get(middle.checked_sub(1)?)?))
                }
            }
        }
    }
}

#[cfg(test)]
impl Record {
    pub(super) fn of(results: &[(&'static str, Value)]) -> Self {
        let mut record = Self { results: BTreeMap::new(), folder: None };
        for (name, result) in results {
            record.add(1, name, result.clone()).unwrap();
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn runs_become_one_figure() {
        let run = |p50: f64| ("pickup", json!({"p50": p50}));
        let three = Record::of(&[run(3.0), run(1.0), run(2.0)]);
        let figure = |record: &Record, over| record.figure(("pickup", "/p50"), over);
        assert_eq!(figure(&three, Over::Median), Some(2.0));
        assert_eq!(figure(&three, Over::Worst), Some(3.0));
        assert_eq!(figure(&Record::of(&[run(3.0), run(1.0)]), Over::Median), Some(2.0));
        assert_eq!(figure(&Record::of(&[]), Over::Median), None);
        assert_eq!(three.figure(("pickup", "/p99"), Over::Worst), None);
    }
}
