//! A call: its name, what it asks for, and where it stands.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::CallResult;

/// The longest name of a call, in bytes.
const LONGEST: usize = 128;

/// The name of a call, chosen by the app: letters, digits, `.`, `_` and `-`, not beginning with a
/// point. It is safe as one component of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallId(String);

/// A text that cannot name a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a call is named by 1 to {LONGEST} letters, digits, `.`, `_` and `-`, not beginning with a point"
)]
pub struct BadCallId;

impl CallId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CallId {
    type Err = BadCallId;

    fn from_str(text: &str) -> Result<Self, BadCallId> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=LONGEST).contains(&text.len())
            && !text.starts_with('.')
            && text.bytes().all(allowed);
        if fits { Ok(Self(text.to_owned())) } else { Err(BadCallId) }
    }
}

impl TryFrom<String> for CallId {
    type Error = BadCallId;

    fn try_from(text: String) -> Result<Self, BadCallId> {
        text.parse()
    }
}

impl From<CallId> for String {
    fn from(id: CallId) -> Self {
        id.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Asks for one call of a tool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCall {
    pub tool: String,
    /// An object, or an array of objects: then the tool runs once for each.
    ///
    /// A value that is exactly `{"filename": …, "data": BASE64}` or `{"filename": …, "upload": N}`
    /// is a file; the tool sees the path at which it lies.
    pub parameters: Value,
    /// Where the result of an async tool is to be delivered. Without it the result waits to be
    /// fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
}

/// Where a result goes, and what proves that it belongs there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    /// An `http` URL.
    pub url: String,
    /// Valid once, for this call.
    pub token: String,
}

/// The token is not for logs.
impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The answer to a call of an async tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub call: CallId,
    /// Always `running`.
    pub status: String,
    /// Calls that come first; 0 when it runs.
    pub position: u32,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CallState {
    /// Files came for it, and nothing else yet.
    Uploading,
    /// It waits for `position` others.
    Queued {
        position: u32,
    },
    Running,
    Ended {
        result: CallResult,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_name_that_is_safe_in_a_path() {
        let check = |text: &str, fits| assert_eq!(text.parse::<CallId>().is_ok(), fits, "{text}");
        check("0198a6c2-7b1e-7c3f-8a54-1f2e3d4c5b6a.0.2.1", true);
        check("a", true);
        check("", false);
        check(".", false);
        check("..", false);
        check(".hidden", false);
        check("a/b", false);
        check("a b", false);
        check("ä", false);
        check(&"a".repeat(128), true);
        check(&"a".repeat(129), false);
    }

    #[test]
    fn a_name_that_is_wrong_is_refused_on_the_wire() {
        assert!(serde_json::from_str::<CallId>("\"../x\"").is_err());
        let unknown = r#"{"tool":"t","parameters":{},"shell":true}"#;
        assert!(serde_json::from_str::<RunCall>(unknown).is_err());
    }

    #[test]
    fn a_token_is_not_printed() {
        let callback = Callback { url: "http://app/x".into(), token: "very-secret".into() };
        assert!(!format!("{callback:?}").contains("very-secret"));
    }
}
