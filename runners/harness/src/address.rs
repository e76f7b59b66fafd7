//! Where a callback goes.

use axum::http::Uri;
use axum::http::uri::Scheme;

/// The parts of an `http` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// What a socket is opened to.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as they were written.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) path: String,
}

impl Address {
    /// `None` for what is no `http` URL with a host. The callback port is inside the cluster and
    /// speaks no TLS.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let authority = uri.authority()?;
        if uri.scheme() != Some(&Scheme::HTTP) || authority.as_str().contains('@') {
            return None;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Some(Self {
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.as_str().to_owned(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_is_called_back() {
        let check = |url: &str, expected: Option<(&str, u16, &str)>| {
            let address = Address::parse(url);
            let parts = address.as_ref().map(|a| (a.host.as_str(), a.port, a.path.as_str()));
            assert_eq!(parts, expected, "{url}");
        };
        check("http://app:8081/v1/callbacks/x?y=1", Some(("app", 8081, "/v1/callbacks/x?y=1")));
        check("http://10.0.0.1", Some(("10.0.0.1", 80, "/")));
        check("http://[fd00::1]:90/", Some(("fd00::1", 90, "/")));
        check("https://app/", None);
        check("http://user@app/", None);
        check("/relative", None);
        check("", None);
    }
}
