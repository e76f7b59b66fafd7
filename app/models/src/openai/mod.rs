//! Any endpoint that speaks OpenAI chat completions, as a stream.
//!
//! ```text
//! request ─► history ─► files ─► body ─► HTTP ─► sse ─► chunk ─► reply ─► events, whole reply
//!            (entries)  (blobs)  (bytes)         (lines)  (JSON)   (calls, inline)
//! ```
//!
//! Refuses to know: turns, retries, silence (the turn loop watches it; only connecting has a
//! limit here), and where its configuration came from.
//!
//! Invariants: an assistant message that this adapter wrote is sent again byte for byte; a
//! request's bytes depend on its content alone; what is held of a stream is bounded; redirects
//! are not followed, so that the key goes nowhere else.

mod assistant;
mod body;
mod call;
mod calls;
mod chunk;
mod failure;
mod files;
mod history;
#[cfg(test)]
mod history_tests;
mod inline;
mod inline_call;
#[cfg(test)]
mod inline_tests;
pub(crate) mod notes;
mod reply;

use crate::config::{Config, ConfigError, SystemPrompt, ToolDialect};
use call::Call;
use famulus_core::model::{Model, ModelRequest, ModelStream};
use famulus_netguard::is_loopback;
use futures::StreamExt as _;
use history::Shape;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// How long a connection may take to come about: a host that is up answers within a second.
const CONNECT_TIME: Duration = Duration::from_secs(10);

const PROVIDER: &str = "openai";
/// Blocks whose calls stand in their text go back to the same dialect only.
const PROVIDER_XML: &str = "openai-xml";

/// The adapter. Clones share one pool of connections.
#[derive(Clone)]
pub struct OpenAi {
    endpoint: Arc<Endpoint>,
}

pub(crate) struct Endpoint {
    pub(crate) client: reqwest::Client,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) key: Option<SecretString>,
    /// What is asked for when a request names no model.
    pub(crate) model: String,
    pub(crate) shape: Shape,
    pub(crate) system_prompt: SystemPrompt,
}

impl OpenAi {
    /// Prepares the client; reaches nothing yet.
    ///
    /// The process must have a TLS provider installed if the address is https.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let Config {
            base_url,
            name,
            api_key,
            headers,
            tool_dialect,
            system_prompt,
            images,
            audio,
            demo: _,
        } = config;
        let model = name.filter(|name| !name.is_empty()).ok_or(ConfigError::NameMissing)?;
        let url = match base_url {
            Some(url) => completions(&url)?,
            None => return Err(ConfigError::BaseUrlMissing { name: model }),
        };
        let mut all = HeaderMap::new();
        all.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        for (name, value) in &headers {
            let unfit = || ConfigError::Header { name: name.clone() };
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?;
            all.insert(header, sensitive(value.expose_secret()).ok_or_else(unfit)?);
        }
        let api_key = api_key.filter(|key| !key.expose_secret().is_empty());
        if let Some(key) = &api_key {
            let bearer = format!("Bearer {}", key.expose_secret());
            all.insert(AUTHORIZATION, sensitive(&bearer).ok_or(ConfigError::ApiKey)?);
        }
        let labels = match tool_dialect {
            ToolDialect::Xml => [PROVIDER_XML.to_owned(), vendor_label(PROVIDER_XML, &url)],
            ToolDialect::Native | ToolDialect::Auto => {
                [PROVIDER.to_owned(), vendor_label(PROVIDER, &url)]
            }
        };
        let shape = Shape { dialect: tool_dialect, images, audio, labels };
        let client = client(&url)?;
        let endpoint =
            Endpoint { client, url, headers: all, key: api_key, model, shape, system_prompt };
        Ok(Self { endpoint: Arc::new(endpoint) })
    }
}

impl Model for OpenAi {
    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn ask(&self, request: ModelRequest) -> ModelStream {
        let call = Call::new(Arc::clone(&self.endpoint), request);
        futures::stream::try_unfold(call, |mut call| async move {
            Ok(call.next().await?.map(|event| (event, call)))
        })
        .boxed()
    }
}

fn client(url: &Url) -> Result<reqwest::Client, ConfigError> {
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIME)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("famulus/", env!("CARGO_PKG_VERSION")));
    // A proxy of the environment is for the world outside, not for a server on this machine.
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(ConfigError::Client)
}

fn completions(base: &Url) -> Result<Url, ConfigError> {
    if !base.username().is_empty() || base.password().is_some() {
        return Err(ConfigError::CredentialsInUrl);
    }
    let unfit = || ConfigError::BaseUrl { url: base.to_string() };
    if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
        return Err(unfit());
    }
    let mut url = base.clone();
    url.path_segments_mut().map_err(|()| unfit())?.pop_if_empty().extend(["chat", "completions"]);
    Ok(url)
}

/// Blocks with fields of a vendor go back to the host that sent them: others refuse such fields.
fn vendor_label(provider: &str, url: &Url) -> String {
    format!("{provider}@{}", url.host_str().unwrap_or_default())
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
            assert_eq!(completions(&base.parse().unwrap()).unwrap().as_str(), expected);
        };
        check("http://h", "http://h/chat/completions");
        check("http://h:1/v1", "http://h:1/v1/chat/completions");
        check("https://h/v1/", "https://h/v1/chat/completions");
        check("https://h/x?api-version=1", "https://h/x/chat/completions?api-version=1");
    }

    #[test]
    fn an_unfit_configuration_says_what_to_do() {
        let check = |toml: &str, expected: &str| {
            let error = OpenAi::new(toml::from_str(toml).unwrap()).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("base_url = 'http://h'", "name the model");
        check("base_url = 'ftp://h'\nname = 'm'", "http:// or https://");
        check("base_url = 'mailto:a@b'\nname = 'm'", "http:// or https://");
        check("base_url = 'http://u:p@h'\nname = 'm'", "`model.api_key`");
        check("base_url = 'http://h'\nname = 'm'\napi_key = \"a\\nb\"", "line breaks");
        check("base_url = 'http://h'\nname = 'm'\nheaders = { 'a b' = 'c' }", "`a b`");
        check("name = 'm'", "`model.base_url` is not set");
    }
}
