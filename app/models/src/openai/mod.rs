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
use crate::endpoint::Endpoint;
use call::Call;
use famulus_core::model::{Model, ModelRequest, ModelStream};
use futures::StreamExt as _;
use history::Shape;
use std::sync::Arc;
use url::Url;

/// The section of the configuration.
const SECTION: &str = "model";
const PROVIDER: &str = "openai";
/// Blocks whose calls stand in their text go back to the same dialect only.
const PROVIDER_XML: &str = "openai-xml";

/// The adapter. Clones share one pool of connections.
#[derive(Clone)]
pub struct OpenAi {
    provider: Arc<Provider>,
}

pub(crate) struct Provider {
    pub(crate) endpoint: Endpoint,
    /// Where chat completions are asked for.
    pub(crate) url: Url,
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
        let found = Endpoint::with_model(SECTION, base_url, name, api_key, &headers)?;
        let (endpoint, model) = found.ok_or(ConfigError::NameMissing { section: SECTION })?;
        let url = endpoint.url(&["chat", "completions"]);
        let labels = match tool_dialect {
            ToolDialect::Xml => [PROVIDER_XML.to_owned(), vendor_label(PROVIDER_XML, &url)],
            ToolDialect::Native | ToolDialect::Auto => {
                [PROVIDER.to_owned(), vendor_label(PROVIDER, &url)]
            }
        };
        let shape = Shape { dialect: tool_dialect, images, audio, labels };
        let provider = Provider { endpoint, url, model, shape, system_prompt };
        Ok(Self { provider: Arc::new(provider) })
    }
}

impl Model for OpenAi {
    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn hears(&self, _: Option<&str>, mime: &str) -> bool {
        self.provider.shape.audio && history::AudioFormat::of(mime).is_some()
    }

    fn ask(&self, request: ModelRequest) -> ModelStream {
        let call = Call::new(Arc::clone(&self.provider), request);
        futures::stream::try_unfold(call, |mut call| async move {
            Ok(call.next().await?.map(|event| (event, call)))
        })
        .boxed()
    }
}

/// Blocks with fields of a vendor go back to the host that sent them: others refuse such fields.
fn vendor_label(provider: &str, url: &Url) -> String {
    format!("{provider}@{}", url.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

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
