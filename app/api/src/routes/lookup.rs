//! Which route a request asks for, and who may: what the guard knows of the table.

use crate::path;
use axum::http::Method;

/// The listener that a request came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    Public,
    Internal,
    /// For sandboxes; no token of a person counts there.
    Callback,
}

/// Who may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody, without a token.
    Public,
    /// Every valid token.
    Chat,
    /// The owner, with a token of the scope `owner`.
    Owner,
}

/// What is known of a request's route before its handler runs.
pub(crate) enum RouteMatch {
    Route(Access),
    /// The methods that the path has, and who may know of them.
    WrongMethod {
        allow: String,
        access: Access,
    },
    Nothing,
}

/// The table as the guard reads it.
pub(crate) struct Routes(pub(super) Vec<Line>);

/// One route, without its handler.
pub(crate) struct Line {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) internal: bool,
}

impl Routes {
    pub(crate) fn find(&self, listener: Listener, method: &Method, path: &str) -> RouteMatch {
        let mut allow: Vec<&str> = Vec::new();
        let mut access = Access::Public;
        for line in &self.0 {
            if (listener == Listener::Internal && !line.internal) || !path::matches(line.path, path)
            {
                continue;
            }
            if line.method == method {
                return RouteMatch::Route(line.access);
            }
            allow.push(line.method.as_str());
            if line.access != Access::Public {
                access = Access::Chat;
            }
        }
        if allow.is_empty() {
            RouteMatch::Nothing
        } else {
            RouteMatch::WrongMethod { allow: allow.join(", "), access }
        }
    }
}
