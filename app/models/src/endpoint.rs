//! An endpoint that speaks a part of OpenAI's protocol: its address, what goes along with every
//! request, and the client.
//!
//! Redirects are not followed, so that the key goes nowhere else.

use crate::config::ConfigError;
use famulus_netguard::is_loopback;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;

/// How long a connection may take to come about: a host that is up answers within a second.
const CONNECT_TIME: Duration = Duration::from_secs(10);

pub(crate) struct Endpoint {
    client: reqwest::Client,
    base: Url,
    headers: HeaderMap,
    pub(crate) key: Option<SecretString>,
}

impl Endpoint {
    /// Prepares the client; reaches nothing yet. `section` is the one of the configuration.
    pub(crate) fn new(
        section: &'static str,
        base: Url,
        key: Option<SecretString>,
        headers: &BTreeMap<String, SecretString>,
    ) -> Result<Self, ConfigError> {
        if !base.username().is_empty() || base.password().is_some() {
            return Err(ConfigError::CredentialsInUrl { section });
        }
        let is_web = matches!(base.scheme(), "http" | "https") && base.host().is_some();
        if !is_web || base.cannot_be_a_base() {
            return Err(ConfigError::BaseUrl { section, url: base.to_string() });
        }
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let unfit = || ConfigError::Header { section, name: name.clone() };
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?;
            all.insert(header, sensitive(value.expose_secret()).ok_or_else(unfit)?);
        }
        let key = key.filter(|key| !key.expose_secret().is_empty());
        if let Some(key) = &key {
            let bearer = sensitive(&format!("Bearer {}", key.expose_secret()));
            all.insert(AUTHORIZATION, bearer.ok_or(ConfigError::ApiKey { section })?);
        }
        let client = client(&base).map_err(|source| ConfigError::Client { section, source })?;
        Ok(Self { client, base, headers: all, key })
    }

    /// The endpoint of a section and the model that is asked for there; nothing where neither is
    /// configured.
    pub(crate) fn with_model(
        section: &'static str,
        base: Option<Url>,
        model: Option<String>,
        key: Option<SecretString>,
        headers: &BTreeMap<String, SecretString>,
    ) -> Result<Option<(Self, String)>, ConfigError> {
        match (base, model.filter(|model| !model.is_empty())) {
            (Some(base), Some(model)) => Ok(Some((Self::new(section, base, key, headers)?, model))),
            (Some(_), None) => Err(ConfigError::NameMissing { section }),
            (None, Some(name)) => Err(ConfigError::BaseUrlMissing { section, name }),
            (None, None) => Ok(None),
        }
    }

    /// The address with these segments behind its path.
    pub(crate) fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // `new` refused addresses without a path.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// A request with all that goes along; what the owner configured has the last word.
    pub(crate) fn post(&self, url: Url, accept: &'static str) -> reqwest::RequestBuilder {
        self.client.post(url).header(ACCEPT, accept).headers(self.headers.clone())
    }
}

fn client(url: &Url) -> Result<reqwest::Client, reqwest::Error> {
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIME)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("famulus/", env!("CARGO_PKG_VERSION")));
    // A proxy of the environment is for the world outside, not for a server on this machine.
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder.build()
}

/// The address without its query, in which some providers want a key.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_appended_to_whatever_stands_there() {
        let check = |base: &str, expected: &str| {
            let base = base.parse().unwrap();
            let endpoint = Endpoint::new("model", base, None, &BTreeMap::new()).unwrap();
            assert_eq!(endpoint.url(&["chat", "completions"]).as_str(), expected);
        };
        check("http://h", "http://h/chat/completions");
        check("http://h:1/v1", "http://h:1/v1/chat/completions");
        check("https://h/v1/", "https://h/v1/chat/completions");
        check("https://h/x?api-version=1", "https://h/x/chat/completions?api-version=1");
    }
}
