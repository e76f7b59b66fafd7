//! What came of a call.

use serde::{Deserialize, Serialize};

use crate::CallId;

/// The result of a call, kept by the runner until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    pub call: CallId,
    pub tool: String,
    /// Whether the parameters were an array. Otherwise there is exactly one run.
    pub each: bool,
    pub runs: Vec<Run>,
}

/// One run of the tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Files that the tool left, to be fetched by their index.
    #[serde(default)]
    pub files: Vec<OutputFile>,
    /// What was cut, left out or ended, in words for the model.
    #[serde(default)]
    pub notes: Vec<String>,
    /// From start to end, in milliseconds.
    pub millis: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The tool wrote JSON; kept as it was written.
    Json {
        output: String,
    },
    /// The tool wrote something else.
    Text {
        output: String,
    },
    Failed(Failure),
}

/// Why a run failed, in a word for the app and in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub reason: Reason,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The tool ended with an exit code other than 0, or by a signal.
    Tool,
    /// It was not done at its deadline.
    Deadline,
    /// The app cancelled the call.
    Cancelled,
    /// It had more processes than it may have.
    Processes,
    /// The runner came close to its memory limit.
    Memory,
    /// It could not be started.
    Start,
    /// Its files could not be laid out, or taken in.
    Files,
    /// The runner ended while the call ran: it may have happened or not.
    Lost,
    /// Something is wrong with the runner.
    Runner,
}

/// A file that a run left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Unique within the call.
    pub index: u32,
    /// One component of a path, without control characters.
    pub name: String,
    pub bytes: u64,
}

/// What a callback brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The version that the runner speaks.
    pub version: u32,
    pub plugin: String,
    pub result: CallResult,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results outlive the runner that wrote them, so an old one must stay readable.
    #[test]
    fn a_kept_result_is_read_back() {
        let kept = r#"{"call":"c1","tool":"t","each":false,"runs":[
            {"outcome":"json","output":"{\"a\":1}","files":[{"index":0,"name":"a.png","bytes":3}],
             "notes":[],"millis":12}]}"#;
        let result: CallResult = serde_json::from_str(kept).unwrap();
        assert_eq!(result.runs[0].outcome, Outcome::Json { output: "{\"a\":1}".into() });
        let failed = r#"{"outcome":"failed","reason":"deadline","message":"m","millis":1}"#;
        let run: Run = serde_json::from_str(failed).unwrap();
        let failure = Failure { reason: Reason::Deadline, message: "m".into() };
        assert_eq!(run.outcome, Outcome::Failed(failure));
        let back: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(back, run);
    }
}
