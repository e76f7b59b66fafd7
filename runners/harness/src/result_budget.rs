//! The bytes of a result, shared among its runs while it grows.
//!
//! The app takes results of [`RESULT_BYTES`] and no larger ones. A run takes what it needs, as long as
//! enough is left for the beginnings of all that come behind it. What is cut is the output, never the
//! word that the tool has run: that it did, and what it left, counts.

use std::io::{self, Write};

use famulus_protocol::{CallResult, Outcome, RESULT_BYTES, Run};

/// Bytes that are kept for each run to come: more than a model reads of one in many.
const SHARE: usize = 16 * 1024;

/// Bytes of the note that says what was cut.
const NOTE: usize = 512;

/// What is left of a result for the runs that come.
#[derive(Debug)]
pub struct ResultBudget {
    left: usize,
    to_come: usize,
}

impl ResultBudget {
    pub fn new(runs: usize) -> Self {
        Self { left: RESULT_BYTES, to_come: runs }
    }

    /// The next run as it fits.
    pub fn fit(&mut self, mut run: Run) -> Run {
        self.to_come = self.to_come.saturating_sub(1);
        let most = self.left.saturating_sub(self.to_come * SHARE);
        let size = json_bytes(&run);
        if size > most {
            cut(&mut run, size - most);
        }
        self.left = self.left.saturating_sub(json_bytes(&run));
        run
    }
}

/// A result as it fits: one that was kept by an earlier release may be larger.
pub(crate) fn fit(result: CallResult) -> CallResult {
    let mut budget = ResultBudget::new(result.runs.len());
    let runs = result.runs.into_iter().map(|run| budget.fit(run)).collect();
    CallResult { runs, ..result }
}

/// Takes so many bytes of JSON off the end of the output.
fn cut(run: &mut Run, over: usize) {
    let text = match &mut run.outcome {
        Outcome::Json { output } | Outcome::Text { output } => output,
        Outcome::Failed(failure) => &mut failure.message,
    };
    let (all, most) = (text.len(), json_bytes(text).saturating_sub(over + NOTE));
    text.truncate(prefix(text, most));
    let kept = text.len();
    // A part of it is JSON no more.
    if let Outcome::Json { output } = &mut run.outcome {
        run.outcome = Outcome::Text { output: std::mem::take(output) };
    }
    run.notes.insert(
        0,
        format!(
            "{kept} of {all} bytes of the output are here, because the result of a call may have \
             {RESULT_BYTES} bytes: ask for less at once, or have the tool leave files"
        ),
    );
}

/// The length of the longest beginning that takes at most so many bytes between the quotes of JSON.
fn prefix(text: &str, most: usize) -> usize {
    let mut taken = 0;
    for (at, letter) in text.char_indices() {
        taken += match letter {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            _ => letter.len_utf8(),
        };
        if taken > most {
            return at;
        }
    }
    text.len()
}

fn json_bytes(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Texts, numbers and lists always become JSON, and counting does not fail.
    let _infallible = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use famulus_protocol::{ANSWER_BYTES, Failure, Reason};

    use super::*;

    fn run(outcome: Outcome) -> Run {
        Run { outcome, files: Vec::new(), notes: Vec::new(), millis: 1 }
    }

    fn text(output: String) -> Run {
        run(Outcome::Text { output })
    }

    #[test]
    fn however_much_the_runs_say_the_result_fits_and_each_is_heard() {
        // An answer is longer by its own frame.
        let frame = ANSWER_BYTES - RESULT_BYTES;
        for letter in ["x", "\0", "\"", "ä"] {
            let output = letter.repeat((1 << 18) / letter.len());
            let runs = vec![text(output.clone()); 64];
            let call = "c1".parse().unwrap();
            let result = fit(CallResult { call, tool: "t".into(), each: true, runs });
            let size = json_bytes(&result);
            assert!(size <= RESULT_BYTES + frame, "{letter:?}: {size}");
            assert!(size > RESULT_BYTES / 10 * 9, "{letter:?}: only {size}");
            assert_eq!(result.runs[0], text(output.clone()), "what fits is left alone");
            for run in &result.runs {
                let Outcome::Text { output } = &run.outcome else { panic!("{letter:?}") };
                assert!(output.len() > 2000, "{letter:?}: {}", output.len());
            }
        }
    }

    #[test]
    fn what_is_cut_is_said_with_the_limit() {
        let mut budget = ResultBudget { left: 2000, to_come: 1 };
        let cut = budget.fit(run(Outcome::Json { output: format!("[\"{}\"]", "a".repeat(4000)) }));
        let Outcome::Text { output } = &cut.outcome else { panic!("{cut:?}") };
        assert!(json_bytes(&cut) <= 2000);
        let kept = output.len();
        assert_eq!(
            cut.notes,
            [format!(
                "{kept} of 4004 bytes of the output are here, because the result of a call may have \
                 8388608 bytes: ask for less at once, or have the tool leave files"
            )]
        );
        let message = "m".repeat(4000);
        let failed = Outcome::Failed(Failure { reason: Reason::Tool, message });
        let cut = ResultBudget { left: 2000, to_come: 1 }.fit(run(failed));
        let Outcome::Failed(failure) = &cut.outcome else { panic!("{cut:?}") };
        assert_eq!(failure.reason, Reason::Tool);
        assert!(failure.message.len() < 2000);
        let spent = ResultBudget { left: 0, to_come: 1 }.fit(text("a".repeat(99)));
        assert_eq!(spent.outcome, Outcome::Text { output: String::new() });
    }
}
