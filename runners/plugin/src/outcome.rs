//! From a report to what the model reads.

use famulus_protocol::{Failure, Outcome, Reason};
use famulus_runner_harness::supervisor::{Captured, End, Report};
use serde::de::IgnoredAny;

use crate::settings::Deadlines;

/// The outcome of a run, and notes on what was cut and ended.
pub(crate) fn of(
    report: &Report,
    deadline_millis: u64,
    most_processes: u32,
) -> (Outcome, Vec<String>) {
    let Report { end, stdout, stderr, strays, forced, millis: _ } = report;
    let mut notes = Vec::new();
    let mut cut = |captured: &Captured, what: &str, part: &str| {
        if captured.cut > 0 {
            let (kept, cut) = (captured.text.len(), captured.cut);
            notes.push(format!(
                "{what} was cut: {cut} bytes are missing, the {part} {kept} are here"
            ));
        }
    };
    cut(stdout, "the output", "first");
    let outcome = match end {
        End::Exited(0) => output(stdout),
        End::Exited(code) => {
            cut(stderr, "the error output", "last");
            failed(Reason::Tool, with_words(format!("the tool ended with exit code {code}"), stderr, stdout))
        }
        End::Signalled(signal) => {
            cut(stderr, "the error output", "last");
            failed(Reason::Tool, with_words(format!("the tool was ended by signal {signal}"), stderr, stdout))
        }
        End::Deadline => {
            let seconds = Deadlines::seconds(deadline_millis);
            let what = format!("the tool was not done after {seconds} s and was ended");
            failed(Reason::Deadline, with_words(what, stderr, stdout))
        }
        End::Cancelled => failed(
            Reason::Cancelled,
            "the call was cancelled while it ran; what it did until then stays done".to_owned(),
        ),
        End::Processes(count) => failed(
            Reason::Processes,
            with_words(
                format!("the tool had {count} processes, more than {most_processes}, and was ended"),
                stderr,
                stdout,
            ),
        ),
        End::Memory => failed(
            Reason::Memory,
            with_words(
                "the sandbox came close to its memory limit and the tool was ended; ask it for less \
                 at once, or have the limit raised"
                    .to_owned(),
                stderr,
                stdout,
            ),
        ),
        End::NotStarted(why) => {
            failed(Reason::Start, format!("the tool could not be started: {why}"))
        }
    };
    if *strays > 0 {
        notes.push(format!("{strays} processes that the tool left running were ended"));
    }
    if *forced {
        notes.push("the tool did not end when it was asked to, and was killed".to_owned());
    }
    (outcome, notes)
}

/// JSON when it is, text otherwise.
fn output(stdout: &Captured) -> Outcome {
    let text = stdout.text.trim();
    if stdout.cut == 0 && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        return Outcome::Json { output: text.to_owned() };
    }
    Outcome::Text { output: stdout.text.clone() }
}

fn failed(reason: Reason, message: String) -> Outcome {
    Outcome::Failed(Failure { reason, message })
}

/// What a tool wrote on its way explains more than how it ended.
fn with_words(mut message: String, stderr: &Captured, stdout: &Captured) -> String {
    let words = [stderr.text.trim(), stdout.text.trim()];
    for (words, before) in words.iter().filter(|words| !words.is_empty()).zip([":\n", "\n"]) {
        message.push_str(before);
        message.push_str(words);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(end: End, stdout: &str, stderr: &str) -> Report {
        let captured = |text: &str| Captured { text: text.to_owned(), cut: 0 };
        let (stdout, stderr) = (captured(stdout), captured(stderr));
        Report { end, stdout, stderr, strays: 0, forced: false, millis: 1 }
    }

    #[test]
    fn output_is_json_when_it_is_and_text_otherwise() {
        let check = |stdout: &str, expected: Outcome| {
            assert_eq!(
                of(&report(End::Exited(0), stdout, "warning"), 1, 1).0,
                expected,
                "{stdout}"
            );
        };
        let json = |output: &str| Outcome::Json { output: output.to_owned() };
        let text = |output: &str| Outcome::Text { output: output.to_owned() };
        check("{\"b\": 1, \"a\": 1.00}\n", json("{\"b\": 1, \"a\": 1.00}"));
        check("null", json("null"));
        check("hello\n", text("hello\n"));
        check("{\"a\":1} more", text("{\"a\":1} more"));
        check("", text(""));
    }

    #[test]
    fn output_that_was_cut_is_text_with_a_note() {
        let mut report = report(End::Exited(0), "12", "");
        report.stdout.cut = 3;
        let (outcome, notes) = of(&report, 1, 1);
        assert_eq!(outcome, Outcome::Text { output: "12".to_owned() });
        assert_eq!(notes, ["the output was cut: 3 bytes are missing, the first 2 are here"]);
    }

    #[test]
    fn a_failure_says_how_and_what_the_tool_said() {
        let check = |end: End, reason, message: &str| {
            let outcome = of(&report(end, "out\n", "err\n"), 30_000, 64).0;
            let message = message.to_owned();
            assert_eq!(outcome, Outcome::Failed(Failure { reason, message }));
        };
        check(End::Exited(3), Reason::Tool, "the tool ended with exit code 3:\nerr\nout");
        check(
            End::Deadline,
            Reason::Deadline,
            "the tool was not done after 30 s and was ended:\nerr\nout",
        );
    }
}
