//! Why a Plugin could not be reconciled this time. It is tried again.

use std::time::Duration;

use famulus_errors::causes;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the {kind} {name} cannot be read")]
    Get { kind: &'static str, name: String, source: kube::Error },
    #[error("the {kind} {name} cannot be written")]
    Apply { kind: String, name: String, source: kube::Error },
    #[error("the {kind} {name} cannot be deleted")]
    Delete { kind: String, name: String, source: kube::Error },
    #[error("the Pod {name} cannot be told that its configuration changed")]
    Touch { name: String, source: kube::Error },
    #[error("the status of the Plugin {name} cannot be written")]
    Status { name: String, source: kube::Error },
    #[error(
        "the Secret {name} is needed for the Plugin and exists already, but is not the \
         operator's; delete it, or create the Plugin under another name"
    )]
    Foreign { name: String },
    #[error(
        "no user id is free for the Plugin {name}; give the operator a wider \
         FAMULUS_OPERATOR_UID_RANGE"
    )]
    NoUser { name: String },
}

/// What kind of failure it is: for metrics, and for how soon it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Somebody else wrote the object meanwhile (409).
    Conflict,
    /// What was asked for has expired (410).
    Gone,
    /// The API server has too much to do (429).
    Throttled,
    /// No answer came in time.
    Timeout,
    Forbidden,
    /// The API server refuses the object (400, 422).
    Invalid,
    /// The API server fails, or cannot be reached.
    Server,
    /// Something in the way that only a person can move.
    Blocked,
}

impl FailureKind {
    pub(crate) fn of(error: &kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return match status.code {
                409 => Self::Conflict,
                410 => Self::Gone,
                429 => Self::Throttled,
                401 | 403 => Self::Forbidden,
                400 | 422 => Self::Invalid,
                408 | 504 => Self::Timeout,
                _ => Self::Server,
            };
        }
        let late = causes(error)
            .map(ToString::to_string)
            .any(|said| said.contains("timed out") || said.contains("deadline"));
        if late { Self::Timeout } else { Self::Server }
    }

    /// Whether it may go well a moment later, without anybody's help.
    pub(crate) fn passes(self) -> bool {
        match self {
            Self::Conflict | Self::Gone | Self::Throttled | Self::Timeout | Self::Server => true,
            Self::Forbidden | Self::Invalid | Self::Blocked => false,
        }
    }

    /// As it stands in the label of a metric.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Throttled => "throttled",
            Self::Timeout => "timeout",
            Self::Forbidden => "forbidden",
            Self::Invalid => "invalid",
            Self::Server => "server",
            Self::Blocked => "blocked",
        }
    }

    /// The pause after the first failure of this kind; it doubles with each one that follows.
    pub fn first_pause(self) -> Duration {
        match self {
            Self::Conflict | Self::Gone => Duration::from_millis(200),
            Self::Timeout | Self::Server => Duration::from_secs(1),
            Self::Throttled => Duration::from_secs(2),
            Self::Forbidden | Self::Invalid | Self::Blocked => Duration::from_secs(5),
        }
    }
}

impl Error {
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Get { source, .. }
            | Self::Apply { source, .. }
            | Self::Delete { source, .. }
            | Self::Touch { source, .. }
            | Self::Status { source, .. } => FailureKind::of(source),
            Self::Foreign { .. } | Self::NoUser { .. } => FailureKind::Blocked,
        }
    }
}
