//! What came of a call, as the lines of its answer tell it, beside what was to come of it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::plugin::{Answer, Call};

/// The end of a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It was not run, and why.
    Refused(String),
    /// Its result.
    Ended(Value),
}

/// # Errors
/// The last line is neither a result nor an error.
pub(crate) fn read(lines: &str) -> Result<Outcome, String> {
    let strange = || format!("its answer has no end that is known: {lines}");
    let last = lines.lines().next_back().and_then(|line| serde_json::from_str::<Value>(line).ok());
    let last = last.ok_or_else(strange)?;
    match last["event"].as_str() {
        Some("result") => Ok(Outcome::Ended(last["result"].clone())),
        Some("error") => match last["message"].as_str() {
            Some(message) => Ok(Outcome::Refused(message.to_owned())),
            None => Err(strange()),
        },
        Some(_) | None => Err(strange()),
    }
}

/// # Errors
/// Something else came of the call than was to come.
pub(crate) fn fits(call: &Call, outcome: &Outcome) -> Result<(), String> {
    let wrong = || {
        let Call { tool, parameters, answer, files } = call;
        format!(
            "`{tool}` of {parameters} was to give {answer:?} with {files:?}, and gave {outcome:?}"
        )
    };
    let is_so = match (&call.answer, outcome) {
        (Answer::Refused(part), Outcome::Refused(why)) => why.contains(part),
        (Answer::Each(answers), Outcome::Ended(result)) => is_each(answers, result),
        (
            answer @ (Answer::Json(_) | Answer::Text(_) | Answer::Failed(_)),
            Outcome::Ended(result),
        ) => {
            let runs = result["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
            result["each"] == false
                && matches!(runs, [run] if is_answer(answer, run) && files(run) == call.files)
        }
        (Answer::Refused(_), Outcome::Ended(_))
        | (
            Answer::Json(_) | Answer::Text(_) | Answer::Failed(_) | Answer::Each(_),
            Outcome::Refused(_),
        ) => false,
    };
    if is_so { Ok(()) } else { Err(wrong()) }
}

fn is_each(answers: &[Answer], result: &Value) -> bool {
    let runs = result["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pairs = answers.iter().zip(runs);
    result["each"] == true
        && answers.len() == runs.len()
        && pairs.into_iter().all(|(answer, run)| is_answer(answer, run))
}

/// Whether one run gave this.
fn is_answer(answer: &Answer, run: &Value) -> bool {
    let (kind, text) = (&run["output"]["kind"], run["output"]["text"].as_str().unwrap_or_default());
    match answer {
        Answer::Json(expected) => {
            kind == "json"
                && serde_json::from_str::<Value>(text).is_ok_and(|found| found == *expected)
        }
        Answer::Text(expected) => kind == "text" && text == expected,
        Answer::Failed(part) => kind == "failed" && text.contains(part),
        // One run of several is neither.
        Answer::Refused(_) | Answer::Each(_) => false,
    }
}

/// What a run left: names with bytes.
fn files(run: &Value) -> BTreeMap<String, u64> {
    let files = run["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = |file: &Value| Some((file[0].as_str()?.to_owned(), file[1]["size"].as_u64()?));
    files.iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(each: bool, outputs: &[(&str, &str)]) -> String {
        let run = |(kind, text): &(&str, &str)| {
            json!({"output": {"kind": kind, "text": text},
            "files": [["a.txt", {"size": 3}]], "notes": [], "millis": 1})
        };
        let runs: Vec<Value> = outputs.iter().map(run).collect();
        let result =
            json!({"event": "result", "call": "c", "result": {"each": each, "runs": runs}});
        format!("{}\n{result}\n", json!({"event": "stage", "stage": "starting"}))
    }

    fn check(answer: Answer, lines: &str, expected: bool) {
        let files = match answer {
            Answer::Json(_) | Answer::Text(_) | Answer::Failed(_) => {
                [("a.txt".to_owned(), 3)].into()
            }
            Answer::Refused(_) | Answer::Each(_) => BTreeMap::new(),
        };
        let call = Call { tool: "t".to_owned(), parameters: json!({}), answer, files };
        let found = read(lines).and_then(|outcome| fits(&call, &outcome));
        assert_eq!(found.is_ok(), expected, "{lines}: {found:?}");
    }

    #[test]
    fn an_answer_is_of_its_kind_and_says_what_was_to_be_said() {
        let json = |value| Answer::Json(value);
        let text = |text: &str| Answer::Text(text.to_owned());
        let failed = |part: &str| Answer::Failed(part.to_owned());
        let refused = |part: &str| Answer::Refused(part.to_owned());
        let number = ended(false, &[("json", "1")]);
        check(json(json!(1)), &number, true);
        check(json(json!(2)), &number, false);
        check(text("1"), &number, false);
        check(Answer::Each(vec![json(json!(1))]), &number, false);
        let hello = ended(false, &[("text", "hello\n")]);
        check(text("hello\n"), &hello, true);
        check(text("hello"), &hello, false);
        let broke = ended(false, &[("failed", "the tool ended with exit code 3:\nno milk")]);
        check(failed("exit code 3"), &broke, true);
        check(failed("exit code 4"), &broke, false);
        check(refused("exit code 3"), &broke, false);
        let two = ended(true, &[("json", "1"), ("failed", "no milk")]);
        check(Answer::Each(vec![json(json!(1)), failed("milk")]), &two, true);
        check(Answer::Each(vec![json(json!(1))]), &two, false);
        check(json(json!(1)), &two, false);
        let error = json!({"event": "error", "call": "c", "message": "not permitted"}).to_string();
        check(refused("permitted"), &error, true);
        check(refused("ready"), &error, false);
        check(failed("permitted"), &error, false);
        check(refused(""), &json!({"event": "alive"}).to_string(), false);
        check(refused(""), "", false);
    }

    #[test]
    fn a_file_that_was_not_expected_or_did_not_come_is_told() {
        let call = |files| Call {
            tool: "t".to_owned(),
            parameters: json!({}),
            answer: Answer::Json(json!(1)),
            files,
        };
        let outcome = read(&ended(false, &[("json", "1")])).unwrap();
        assert!(fits(&call(BTreeMap::new()), &outcome).is_err());
        assert!(fits(&call([("a.txt".to_owned(), 4)].into()), &outcome).is_err());
        assert!(fits(&call([("a.txt".to_owned(), 3)].into()), &outcome).is_ok());
    }
}
