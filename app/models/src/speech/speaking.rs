//! Text to recordings: `audio/speech`.

use super::in_section;
use crate::config::ConfigError;
use crate::endpoint::{Endpoint, shown};
use crate::failure;
use async_trait::async_trait;
use famulus_core::speech::{Speaker, SpeechError, Spoken};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

const SECTION: &str = "speech";

/// The section `speech` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpeechConfig {
    /// Where the provider's API begins; `audio/speech` is appended. Absent: nothing is said aloud.
    pub base_url: Option<Url>,
    pub name: Option<String>,
    pub api_key: Option<SecretString>,
    pub headers: BTreeMap<String, SecretString>,
    pub voice: String,
    /// How it is to be said, for models that take a word on it.
    pub instructions: Option<String>,
    pub format: Format,
    /// Characters that are said at once.
    pub characters: usize,
    /// How long one recording may take.
    pub seconds: u64,
}

impl Default for SpeechConfig {
    fn default() -> Self {
        Self {
            base_url: None,
            name: None,
            api_key: None,
            headers: BTreeMap::new(),
            voice: "alloy".to_owned(),
            instructions: None,
            format: Format::Opus,
            characters: 4_000,
            seconds: 120,
        }
    }
}

/// What recordings are made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Ogg with Opus: what chats show as a voice note.
    Opus,
    Mp3,
    Aac,
    Flac,
    Wav,
}

impl Format {
    /// Its media type, and what names of files end with.
    fn kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Opus => ("audio/ogg", "ogg"),
            Self::Mp3 => ("audio/mpeg", "mp3"),
            Self::Aac => ("audio/aac", "aac"),
            Self::Flac => ("audio/flac", "flac"),
            Self::Wav => ("audio/wav", "wav"),
        }
    }
}

/// The adapter.
pub struct Speaking {
    endpoint: Endpoint,
    url: Url,
    model: String,
    voice: String,
    instructions: Option<String>,
    format: Format,
    characters: usize,
    seconds: u64,
}

impl Speaking {
    /// Prepares the client; reaches nothing yet. Nothing where nothing is to be said.
    pub fn new(config: SpeechConfig) -> Result<Option<Self>, ConfigError> {
        let SpeechConfig {
            base_url,
            name,
            api_key,
            headers,
            voice,
            instructions,
            format,
            characters,
            seconds,
        } = config;
        let found = Endpoint::with_model(SECTION, base_url, name, api_key, &headers)?;
        let Some((endpoint, model)) = found else { return Ok(None) };
        let url = endpoint.url(&["audio", "speech"]);
        // The first ones refuse what they do not know.
        let instructions = instructions.filter(|_| !matches!(&*model, "tts-1" | "tts-1-hd"));
        Ok(Some(Self { endpoint, url, model, voice, instructions, format, characters, seconds }))
    }

    fn late(&self) -> SpeechError {
        SpeechError::Late { section: SECTION, seconds: self.seconds }
    }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    voice: &'a str,
    input: &'a str,
    response_format: Format,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
}

#[async_trait]
impl Speaker for Speaking {
    fn most(&self) -> usize {
        self.characters
    }

    async fn say(&self, text: &str) -> Result<Spoken, SpeechError> {
        let limit = Duration::from_secs(self.seconds);
        let ends = Instant::now() + limit;
        let (mime, extension) = self.format.kind();
        let request = self.endpoint.post(self.url.clone(), "*/*").json(&Request {
            model: &self.model,
            voice: &self.voice,
            input: text,
            response_format: self.format,
            instructions: self.instructions.as_deref(),
        });
        let response = timeout(limit, request.send()).await.map_err(|_| self.late())?;
        let response = response.map_err(|error| SpeechError::Unreachable {
            section: SECTION,
            url: shown(&self.url),
            source: Box::new(error.without_url()),
        })?;
        if !response.status().is_success() {
            let error = failure::of_response(response, self.endpoint.key.as_ref()).await;
            return Err(in_section(SECTION, error));
        }
        let kind = response.headers().get(reqwest::header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/") || kind.starts_with("application/json") {
            let what = format!("{kind} instead of a recording");
            return Err(SpeechError::Malformed { section: SECTION, what });
        }
        let pieces = response.bytes_stream().map_err(|error| io::Error::other(error.without_url()));
        let bytes = stream::try_unfold(pieces.boxed(), move |mut pieces| async move {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the recording took too long");
            let piece = timeout_at(ends, pieces.try_next()).await.map_err(late)??;
            Ok(piece.map(|piece| (piece, pieces)))
        });
        Ok(Spoken { mime: mime.to_owned(), extension, bytes: bytes.boxed() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_can_be_written_in_toml() {
        let config: SpeechConfig = toml::from_str(
            "base_url = 'http://h/v1'\nname = 'tts-1'\nvoice = 'nova'\nformat = 'mp3'
             instructions = 'calmly'\ncharacters = 10\nseconds = 3\napi_key = 'k'",
        )
        .unwrap();
        let speaking = Speaking::new(config).unwrap().unwrap();
        assert_eq!(speaking.url.as_str(), "http://h/v1/audio/speech");
        assert_eq!((speaking.most(), speaking.instructions), (10, None));
        assert_eq!(speaking.format.kind(), ("audio/mpeg", "mp3"));
        assert!(Speaking::new(SpeechConfig::default()).unwrap().is_none());
        assert!(toml::from_str::<SpeechConfig>("format = 'pcm'").is_err());
    }
}
