//! What can go wrong between this terminal and the server, said so that the reader knows what to
//! do. Text from the server is made safe for the terminal before it becomes part of a message.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use serde::Deserialize;

use crate::clean::one_line;

/// A command could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "`{given}` is not the address of a server; give one such as http://127.0.0.1:3000 by --url or FAMULUS_URL"
    )]
    Address { given: String },
    #[error(
        "the address carries more than host, port and path; a token never stands in an address: give it by --token-file or FAMULUS_TOKEN"
    )]
    CredentialInAddress,
    #[error(
        "the token file {path} cannot be read; `famulus up` makes it at its first start, and --token-file names another"
    )]
    ReadToken { path: PathBuf, source: io::Error },
    #[error("{origin} holds no token; `famulus token` shows the right one")]
    TokenShape { origin: String },
    #[error("the HTTP client cannot be set up; are the certificates of this machine installed?")]
    Setup { source: reqwest::Error },
    #[error(
        "nothing listens at {url}; is `famulus up` running? --url or FAMULUS_URL names another address"
    )]
    Refused { url: String, source: reqwest::Error },
    #[error("{url} cannot be reached; check the address and the network")]
    Unreachable { url: String, source: reqwest::Error },
    #[error("{url} did not answer in time; `famulus doctor` looks for the reason")]
    Silent { url: String, source: reqwest::Error },
    #[error("the connection to {url} broke off; try again")]
    Broken { url: String, source: reqwest::Error },
    #[error(
        "the events of {url} stopped and could not be taken up again; the turn goes on without this terminal, and `famulus history` shows its reply"
    )]
    StreamLost { url: String },
    #[error(
        "{url} does not accept the token from {origin}; `famulus token` on its machine shows the right one"
    )]
    Unauthorized { url: String, origin: String },
    #[error("{0}")]
    Refusal(Box<Refusal>),
    #[error(
        "{url} answered something else than {what}; is it a Famulus server of this version? `famulus doctor` compares"
    )]
    Malformed { url: String, what: &'static str, source: Option<serde_json::Error> },
    #[error("no conversation `{given}`; `/conversations` lists those that there are")]
    NoConversation { given: String },
    #[error(
        "no approval `{given}` is waiting; it may have expired, and `famulus approvals` lists the others"
    )]
    NoApproval { given: String },
    #[error("nobody called `{given}` is known; leave --person out to let in somebody new")]
    NoPerson { given: String },
    #[error("several people are called `{given}`; give one of these ids instead: {ids}")]
    TwoPeople { given: String, ids: String },
    #[error("the parameter `{given}` {why}")]
    Parameter { given: String, why: String },
    #[error(
        "`{given}` is neither the address of a repository nor a folder of this machine; write an address such as https://example.org/weather.git, or the path of a folder"
    )]
    PluginSource { given: String },
    #[error("{path} cannot be a part of a plugin: it {why}")]
    PluginFile { path: String, why: String },
    #[error(
        "the plugin `{plugin}` has no revision to permit; `famulus plugin update {plugin}` fetches one"
    )]
    NothingOffered { plugin: String },
    #[error(
        "`{given}` begins no revision of the plugin `{plugin}`, or several; `famulus plugin history {plugin}` lists them"
    )]
    NoRevision { given: String, plugin: String },
    #[error(
        "no value was given for the key `{key}`, and nothing changed; write one behind it, type it, or pipe it in; --unset takes the value away"
    )]
    NoValue { key: String },
    #[error("the file {} cannot be read; check its path and permissions", path.display())]
    ReadFile { path: PathBuf, source: io::Error },
    #[error("the file {} cannot be written; check its path, its permissions and the disk", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
    #[error("the answer cannot be written")]
    Write { source: io::Error },
    #[error("the input cannot be read")]
    Read { source: io::Error },
    #[error("the input is not UTF-8 text; convert it first")]
    InputNotText,
    #[error("the message is longer than {limit} bytes; send it in parts, or as a file")]
    InputTooLong { limit: usize },
    #[error(
        "there is no message; write it behind `famulus chat`, pipe it in, or start in a terminal"
    )]
    NoMessage,
    #[error("the prompt failed; messages can also be piped into `famulus chat`")]
    Prompt { source: io::Error },
}

impl Error {
    /// Whether the same request may succeed when it is sent again.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::Silent { .. }
            | Self::Broken { .. } => true,
            Self::Refusal(refusal) => matches!(refusal.status, 429 | 502 | 503 | 504),
            Self::Address { .. }
            | Self::CredentialInAddress
            | Self::ReadToken { .. }
            | Self::TokenShape { .. }
            | Self::Setup { .. }
            | Self::StreamLost { .. }
            | Self::Unauthorized { .. }
            | Self::Malformed { .. }
            | Self::NoConversation { .. }
            | Self::NoApproval { .. }
            | Self::NoPerson { .. }
            | Self::TwoPeople { .. }
            | Self::Parameter { .. }
            | Self::PluginSource { .. }
            | Self::PluginFile { .. }
            | Self::NothingOffered { .. }
            | Self::NoRevision { .. }
            | Self::NoValue { .. }
            | Self::ReadFile { .. }
            | Self::WriteFile { .. }
            | Self::Write { .. }
            | Self::Read { .. }
            | Self::InputNotText
            | Self::InputTooLong { .. }
            | Self::NoMessage
            | Self::Prompt { .. } => false,
        }
    }

    /// The HTTP status of a refusal.
    pub(crate) fn status(&self) -> Option<u16> {
        if let Self::Refusal(refusal) = self { Some(refusal.status) } else { None }
    }

    /// How long the server asks to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let Self::Refusal(refusal) = self else { return None };
        refusal.retry_after.map(Duration::from_secs)
    }

    /// Message and causes on one line, for a terminal that stays open.
    pub(crate) fn chain(&self) -> String {
        one_line(&famulus_errors::chain(self))
    }
}

/// The server said no, and why: a problem document of RFC 9457.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Refusal {
    pub title: String,
    pub status: u16,
    pub detail: String,
    pub remedy: String,
    /// Seconds after which to try again, from `Retry-After`.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

impl Refusal {
    /// Reads a problem document; a body that is none becomes a refusal with the status alone.
    pub(crate) fn read(status: u16, body: &[u8]) -> Self {
        let read: Self = serde_json::from_slice(body).unwrap_or_default();
        let title = match one_line(&read.title) {
            title if title.is_empty() => format!("the server answered {status}"),
            title => title,
        };
        Self {
            title,
            status,
            detail: one_line(&read.detail),
            remedy: one_line(&read.remedy),
            retry_after: None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_title_detail_remedy() {
        let check = |body: &str, expected: &str| {
            assert_eq!(Refusal::read(409, body.as_bytes()).to_string(), expected);
        };
        check(
            r#"{"type":"x","title":"conflict","status":409,"detail":"the key was used","remedy":"use another"}"#,
            "conflict: the key was used; use another",
        );
        check(r#"{"title":"conflict"}"#, "conflict");
        check("<html>", "the server answered 409");
        check(r#"{"title":"a\u001b[2J\nb"}"#, "a␛[2J b");
        check(r#"{"title":7}"#, "the server answered 409");
    }
}
