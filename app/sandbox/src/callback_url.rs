//! The URL to which runners post results that come later.
//!
//! A call may outlive the process that sent it, and its address with it, so the URL names a Service
//! of all processes. Runners resolve no names; the Service's is looked up here, for each call. On one
//! machine it is a socket in the sandbox, as `unix:/run/famulus/app`, and stays what it is.

use std::time::Duration;

use reqwest::Url;
use tokio::net::lookup_host;
use tokio::time::timeout;

/// The cluster's own names are answered in milliseconds.
const RESOLVE: Duration = Duration::from_secs(5);

/// How a socket is told from the URL of a host.
const SOCKET: &str = "unix:";

/// What a path is put behind, with an address in place of the name, or why there is none now.
pub(crate) async fn resolve(url_text: &str) -> Result<String, String> {
    if url_text.starts_with(SOCKET) {
        // The path of a request stands behind another colon.
        return Ok(format!("{}:", url_text.trim_end_matches(':')));
    }
    let mut url =
        Url::parse(url_text).map_err(|error| format!("`{url_text}` is no URL: {error}"))?;
    if let (Some(name), Some(port)) = (url.domain().map(str::to_owned), url.port_or_known_default())
    {
        let found = timeout(RESOLVE, lookup_host((name.as_str(), port))).await;
        let found = found.map_err(|_elapsed| format!("nobody says where `{name}` is"))?;
        let found = found.map_err(|error| format!("where `{name}` is: {error}"))?.next();
        let address = found.ok_or_else(|| format!("`{name}` has no address"))?;
        url.set_ip_host(address.ip()).map_err(|()| format!("`{url_text}` takes no address"))?;
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_becomes_an_address_and_an_address_stays() {
        assert_eq!(resolve("http://10.0.0.7:3002/").await.unwrap(), "http://10.0.0.7:3002");
        let local = resolve("http://localhost:3002").await.unwrap();
        assert!(["http://127.0.0.1:3002", "http://[::1]:3002"].contains(&&*local), "{local}");
        assert_eq!(resolve("unix:/run/famulus/app").await.unwrap(), "unix:/run/famulus/app:");
        assert!(resolve("http://absent.invalid:3002").await.is_err());
    }
}
