//! Refusals: a stable word, what is the matter, and what to do.

use serde::{Deserialize, Serialize};

/// A refusal. Nothing happened, unless the kind says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{detail}; {remedy}")]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: Kind,
    pub detail: String,
    pub remedy: String,
}

/// What went wrong. The word stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The bearer is missing or wrong.
    Unauthorized,
    /// No such path.
    NoRoute,
    /// The request is not of the protocol.
    Invalid,
    /// A manifest of the plugin is broken.
    Manifest,
    NoTool,
    /// The parameters do not fit the tool's manifest.
    Parameters,
    TooLarge,
    /// The runner knows no such call: it never came, or its result was acknowledged and forgotten.
    NoCall,
    /// The call has no such file.
    NoFile,
    /// The call has not ended yet.
    NotEnded,
    /// The result was acknowledged: the call does not run again.
    Acknowledged,
    /// Too many calls wait already.
    Busy,
    /// Too many results wait to be acknowledged.
    Unacknowledged,
    /// The runner is about to end.
    Draining,
    /// The runner has not been given yet what the call needs.
    Stale,
    /// The runner has no plugin to run yet, or may not run it.
    NotReady,
    /// A key of the configuration that the plugin needs has no value.
    Config,
    /// The plugin's files are more than they may be.
    State,
    /// Something is wrong with the runner.
    Internal,
}

impl Kind {
    /// The HTTP status that goes with it.
    pub fn status(self) -> u16 {
        match self {
            Self::Unauthorized => 401,
            Self::NoRoute | Self::NoTool | Self::NoCall | Self::NoFile => 404,
            Self::Invalid | Self::Parameters => 400,
            Self::Manifest | Self::Config => 422,
            Self::State => 507,
            Self::TooLarge => 413,
            Self::NotEnded | Self::Stale => 409,
            Self::Acknowledged => 410,
            Self::Busy | Self::Unacknowledged | Self::Draining | Self::NotReady => 503,
            Self::Internal => 500,
        }
    }

    /// Whether the same request may succeed a little later.
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            Self::Busy
                | Self::Unacknowledged
                | Self::Draining
                | Self::NotReady
                | Self::NotEnded
                | Self::Stale
        )
    }
}

impl Problem {
    pub fn new(kind: Kind, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), remedy: remedy.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_word_a_cause_and_a_remedy() {
        let problem = Problem::new(Kind::NoTool, "no tool `x`", "use `y`");
        let json = r#"{"type":"no-tool","detail":"no tool `x`","remedy":"use `y`"}"#;
        assert_eq!(serde_json::to_string(&problem).unwrap(), json);
        assert_eq!(serde_json::from_str::<Problem>(json).unwrap(), problem);
        assert_eq!(problem.to_string(), "no tool `x`; use `y`");
    }
}
