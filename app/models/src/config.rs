//! What the person who runs the installation can say about the model.

use secrecy::SecretString;
use serde::Deserialize;
use std::collections::BTreeMap;
use url::Url;

/// The section `model` of the configuration. Every key is live: [`crate::Models::change`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the provider's API begins, for example `https://models.example.org/v1`;
    /// `chat/completions` is appended. Absent: the built-in demo model answers.
    pub base_url: Option<Url>,
    /// The model to ask for when an agent names none.
    pub name: Option<String>,
    /// Sent as a bearer token. Local servers need none.
    pub api_key: Option<SecretString>,
    /// Sent with every request, beside what the protocol needs.
    pub headers: BTreeMap<String, SecretString>,
    pub tool_dialect: ToolDialect,
    pub system_prompt: SystemPrompt,
    /// Whether the model can see images. If not, it reads their names.
    pub images: bool,
    /// Whether the model can hear WAV and MP3. If not, it reads their names.
    pub audio: bool,
    pub demo: DemoConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            base_url: None,
            name: None,
            api_key: None,
            headers: BTreeMap::new(),
            tool_dialect: ToolDialect::default(),
            system_prompt: SystemPrompt::default(),
            images: true,
            audio: true,
            demo: DemoConfig::default(),
        }
    }
}

/// How a model asks for tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolDialect {
    /// Through the protocol's own fields; text is never searched.
    Native,
    /// As XML in its text, with the tools described in the prompt: for servers that know no tools.
    Xml,
    /// Through the protocol's own fields, and calls of offered tools that stand in the text as
    /// XML are taken out of it and obeyed alike.
    #[default]
    Auto,
}

/// How the two parts of the system prompt are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemPrompt {
    /// Two system messages: what stays the same, then what changes.
    Separate,
    /// One system message, what stays the same first: chat templates of local servers often allow
    /// no second one.
    #[default]
    Joined,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DemoConfig {
    /// Milliseconds between words, for watching the stream.
    pub delay_ms: u64,
}

/// The configuration does not describe a provider.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("`{section}.base_url` is set but `{section}.name` is not; name the model to ask for")]
    NameMissing { section: &'static str },
    #[error(
        "`{section}.name` is `{name}` but `{section}.base_url` is not set; set it, or leave both out"
    )]
    BaseUrlMissing { section: &'static str, name: String },
    #[error(
        "`{section}.base_url` must begin with http:// or https:// and name a host, but is `{url}`"
    )]
    BaseUrl { section: &'static str, url: String },
    #[error(
        "`{section}.base_url` carries a user or password; put the key into `{section}.api_key`"
    )]
    CredentialsInUrl { section: &'static str },
    #[error(
        "`{section}.api_key` holds characters that cannot be sent in a header; check for line breaks"
    )]
    ApiKey { section: &'static str },
    #[error("`{section}.headers` holds `{name}`, whose name or value cannot be sent as a header")]
    Header { section: &'static str, name: String },
    #[error(
        "the HTTP client of `{section}` could not be set up; check the certificates of this machine"
    )]
    Client {
        section: &'static str,
        #[source]
        source: reqwest::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    #[test]
    fn every_key_can_be_written_in_toml() {
        let config: Config = toml::from_str(
            r#"
            base_url = "http://127.0.0.1:8080/v1"
            name = "qwen"
            api_key = "k"
            tool_dialect = "xml"
            system_prompt = "joined"
            images = false
            audio = false
            headers = { "X-Title" = "home" }
            demo = { delay_ms = 20 }
            "#,
        )
        .unwrap();
        assert_eq!(config.base_url.unwrap().as_str(), "http://127.0.0.1:8080/v1");
        assert_eq!(config.name.as_deref(), Some("qwen"));
        assert_eq!(config.api_key.unwrap().expose_secret(), "k");
        assert_eq!(config.tool_dialect, ToolDialect::Xml);
        assert_eq!(config.system_prompt, SystemPrompt::Joined);
        assert!(!config.images && !config.audio);
        assert_eq!(config.headers["X-Title"].expose_secret(), "home");
        assert_eq!(config.demo.delay_ms, 20);
    }

    #[test]
    fn nothing_said_means_the_demo_model_and_auto() {
        let config: Config = toml::from_str("").unwrap();
        assert!(config.base_url.is_none() && config.images && config.audio);
        assert_eq!(config.tool_dialect, ToolDialect::Auto);
        assert_eq!(config.system_prompt, SystemPrompt::Joined);
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(toml::from_str::<Config>("base_uri = 'x'").is_err());
        assert!(toml::from_str::<Config>("demo = { delay = 1 }").is_err());
    }

    #[test]
    fn a_printed_configuration_shows_no_secret() {
        let config: Config =
            toml::from_str("api_key = 'sesame'\nheaders = { a = 'sesame' }").unwrap();
        assert!(!format!("{config:?}").contains("sesame"));
    }
}
