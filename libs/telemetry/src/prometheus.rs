//! Metrics of the `metrics` facade, rendered for Prometheus.
//!
//! An own recorder, because those that there are read the processor's counter for a clock that this
//! program does not need, and calibrate it for up to 200 ms while the program starts; and because
//! they keep every sample of a histogram until somebody asks. Here a sample is counted in its bucket
//! when it comes.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use parking_lot::RwLock;

use crate::Error;

/// From a warm tool call (1 ms) to the longest turn that is still normal (5 min).
const SECONDS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// From a short message to a large upload.
const BYTES: [f64; 8] =
    [256.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 33_554_432.0];

/// For histograms of counts, such as the size of a batch.
const COUNTS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0, 10_000.0];

/// Series that one process keeps. More come only of a label whose values somebody else chooses: what
/// is beyond is counted as refused, so that nobody fills the memory with names.
const MOST: usize = 2_000;

const REFUSED: &str = "famulus_metrics_refused_total";

/// Renders what the process has counted. Clones share one recorder.
///
/// Histograms named `*_seconds` and `*_bytes` get buckets of that unit. Labels must come from
/// small closed sets, never from a person, a chat or a message.
#[derive(Clone, Default)]
pub struct Metrics {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    series: RwLock<HashMap<Key, Series>>,
    /// Asked for a series that is one too many, or of another kind than its name.
    refused: AtomicU64,
}

#[derive(Clone)]
enum Series {
    Counter(Arc<AtomicU64>),
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Buckets>),
}

impl Metrics {
    pub(crate) fn install() -> Result<Self, Error> {
        let metrics = Self::default();
        metrics::set_global_recorder(metrics.clone()).map_err(|_| Error::AlreadyInstalled)?;
        Ok(metrics)
    }

    /// All metrics in the Prometheus text format, in the order of their names.
    pub fn text(&self) -> String {
        let series = self.shared.series.read();
        let sorted: BTreeMap<&Key, &Series> = series.iter().collect();
        let mut text = String::with_capacity(sorted.len() * 128);
        let mut last = "";
        for (key, series) in sorted {
            if key.name() != last {
                last = key.name();
                line(&mut text, format_args!("# TYPE {} {}", Name(last), series.kind()));
            }
            series.render(key, &mut text);
        }
        let refused = self.shared.refused.load(Ordering::Relaxed);
        if refused > 0 {
            line(&mut text, format_args!("# TYPE {REFUSED} counter\n{REFUSED} {refused}"));
        }
        text
    }

    /// The series of a key, made when it is new; nothing when there are too many, or when the name
    /// belongs to a series of another kind.
    fn series<T>(
        &self,
        key: &Key,
        made: impl FnOnce() -> Series,
        wanted: fn(Series) -> Option<T>,
    ) -> Option<T> {
        let shared = &self.shared;
        let known = shared.series.read().get(key).cloned();
        let series = if let Some(known) = known {
            Some(known)
        } else {
            let mut series = shared.series.write();
            let has_room = series.len() < MOST || series.contains_key(key);
            has_room.then(|| series.entry(key.clone()).or_insert_with(made).clone())
        };
        let found = series.and_then(wanted);
        if found.is_none() {
            shared.refused.fetch_add(1, Ordering::Relaxed);
        }
        found
    }
}

impl Recorder for Metrics {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let made = || Series::Counter(Arc::default());
        let counter = self.series(key, made, |series| match series {
            Series::Counter(counter) => Some(counter),
            Series::Gauge(_) | Series::Histogram(_) => None,
        });
        counter.map_or_else(Counter::noop, Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let made = || Series::Gauge(Arc::default());
        let gauge = self.series(key, made, |series| match series {
            Series::Gauge(gauge) => Some(gauge),
            Series::Counter(_) | Series::Histogram(_) => None,
        });
        gauge.map_or_else(Gauge::noop, Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let made = || Series::Histogram(Arc::new(Buckets::of(bounds_of(key.name()))));
        let histogram = self.series(key, made, |series| match series {
            Series::Histogram(histogram) => Some(histogram),
            Series::Counter(_) | Series::Gauge(_) => None,
        });
        histogram.map_or_else(Histogram::noop, Histogram::from_arc)
    }
}

impl Series {
    fn kind(&self) -> &'static str {
        match self {
            Self::Counter(_) => "counter",
            Self::Gauge(_) => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }

    fn render(&self, key: &Key, text: &mut String) {
        let (name, labels) = (Name(key.name()), Labels { key, bound: None });
        match self {
            Self::Counter(counter) => {
                line(text, format_args!("{name}{labels} {}", counter.load(Ordering::Relaxed)));
            }
            Self::Gauge(gauge) => {
                let value = f64::from_bits(gauge.load(Ordering::Relaxed));
                line(text, format_args!("{name}{labels} {value}"));
            }
            Self::Histogram(buckets) => {
                let mut count = 0;
                let bounds = buckets.bounds.iter().copied().chain([f64::INFINITY]);
                for (bound, samples) in bounds.zip(&buckets.samples) {
                    count += samples.load(Ordering::Relaxed);
                    let labels = Labels { key, bound: Some(bound) };
                    line(text, format_args!("{name}_bucket{labels} {count}"));
                }
                let sum = f64::from_bits(buckets.sum.load(Ordering::Relaxed));
                line(text, format_args!("{name}_sum{labels} {sum}"));
                line(text, format_args!("{name}_count{labels} {count}"));
            }
        }
    }
}

fn bounds_of(name: &str) -> &'static [f64] {
    if name.ends_with("_seconds") {
        &SECONDS
    } else if name.ends_with("_bytes") {
        &BYTES
    } else {
        &COUNTS
    }
}

/// How many samples fell below each bound and above the one before; the last place is above all.
struct Buckets {
    bounds: &'static [f64],
    samples: Box<[AtomicU64]>,
    /// The bits of a float.
    sum: AtomicU64,
}

impl Buckets {
    fn of(bounds: &'static [f64]) -> Self {
        let samples = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, samples, sum: AtomicU64::new(0) }
    }
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        if let Some(samples) = self.samples.get(place) {
            samples.fetch_add(1, Ordering::Relaxed);
        }
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // The closure always gives a sum, so that this always succeeds.
        let _before = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

/// A name in which everything that the format does not allow is an underscore.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, letter) in self.0.chars().enumerate() {
            let fits = letter.is_ascii_alphabetic()
                || letter == '_'
                || (place > 0 && letter.is_ascii_digit());
            f.write_char(if fits { letter } else { '_' })?;
        }
        Ok(())
    }
}

/// The labels of a key in braces, with the bound of a bucket behind them.
struct Labels<'a> {
    key: &'a Key,
    bound: Option<f64>,
}

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = '{';
        for label in self.key.labels() {
            write!(f, "{separator}{}=\"", Name(label.key()))?;
            for letter in label.value().chars() {
                match letter {
                    '\\' => f.write_str("\\\\")?,
                    '"' => f.write_str("\\\"")?,
                    '\n' => f.write_str("\\n")?,
                    letter => f.write_char(letter)?,
                }
            }
            f.write_char('"')?;
            separator = ',';
        }
        match self.bound {
            Some(bound) if bound.is_infinite() => write!(f, "{separator}le=\"+Inf\"}}"),
            Some(bound) => write!(f, "{separator}le=\"{bound}\"}}"),
            None if separator == ',' => f.write_char('}'),
            None => Ok(()),
        }
    }
}

fn line(text: &mut String, line: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _infallible = writeln!(text, "{line}");
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::with_local_recorder;

    #[test]
    fn what_was_counted_is_rendered_by_name() {
        let metrics = Metrics::default();
        with_local_recorder(&metrics, || {
            metrics::counter!("turns_total", "state" => "a \"b\\\n").increment(2);
            metrics::counter!("turns_total", "state" => "a \"b\\\n").increment(1);
            metrics::gauge!("lanes").set(2.5);
            for seconds in [0.001, 0.0011, 400.0] {
                metrics::histogram!("http_seconds", "status" => "200").record(seconds);
            }
        });
        let text = metrics.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "# TYPE http_seconds histogram");
        assert_eq!(lines[1], "http_seconds_bucket{status=\"200\",le=\"0.001\"} 1");
        assert_eq!(lines[2], "http_seconds_bucket{status=\"200\",le=\"0.0025\"} 2");
        assert_eq!(lines[16], "http_seconds_bucket{status=\"200\",le=\"300\"} 2");
        assert_eq!(lines[17], "http_seconds_bucket{status=\"200\",le=\"+Inf\"} 3");
        assert_eq!(lines[18], "http_seconds_sum{status=\"200\"} 400.0021");
        assert_eq!(lines[19], "http_seconds_count{status=\"200\"} 3");
        assert_eq!(lines[20..22], ["# TYPE lanes gauge", "lanes 2.5"]);
        assert_eq!(lines[22], "# TYPE turns_total counter");
        assert_eq!(lines[23], r#"turns_total{state="a \"b\\\n"} 3"#);
        assert_eq!(lines.len(), 24, "{text}");
    }

    #[test]
    fn histograms_have_the_buckets_of_their_unit() {
        assert_eq!(bounds_of("famulus_turn_seconds"), SECONDS);
        assert_eq!(bounds_of("body_bytes"), BYTES);
        assert_eq!(bounds_of("batch"), COUNTS);
    }

    #[test]
    fn names_that_somebody_makes_up_do_not_fill_the_memory() {
        let metrics = Metrics::default();
        with_local_recorder(&metrics, || {
            for number in 0..MOST + 5 {
                metrics::counter!("made_up_total", "who" => number.to_string()).increment(1);
            }
            metrics::counter!("made_up_total", "who" => "0").increment(1);
        });
        let text = metrics.text();
        assert_eq!(text.lines().filter(|line| line.starts_with("made_up")).count(), MOST);
        assert!(text.contains("made_up_total{who=\"0\"} 2\n"), "what is known goes on");
        assert!(text.ends_with(&format!("{REFUSED} 5\n")), "{}", &text[text.len() - 120..]);
    }

    #[test]
    fn a_name_is_of_one_kind() {
        let metrics = Metrics::default();
        with_local_recorder(&metrics, || {
            metrics::counter!("one").increment(1);
            metrics::gauge!("one").set(5.0);
        });
        assert_eq!(
            metrics.text(),
            format!("# TYPE one counter\none 1\n# TYPE {REFUSED} counter\n{REFUSED} 1\n")
        );
    }
}
