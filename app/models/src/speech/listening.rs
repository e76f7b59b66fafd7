//! Recordings to text: `audio/transcriptions`.

use super::in_section;
use crate::config::ConfigError;
use crate::endpoint::{Endpoint, shown};
use crate::failure;
use async_trait::async_trait;
use famulus_core::blob::{BlobRef, Blobs};
use famulus_core::ids::PersonId;
use famulus_core::message::FilePart;
use famulus_core::model::Usage;
use famulus_core::speech::{SpeechError, Transcriber, Transcript};
use futures::TryStreamExt as _;
use reqwest::multipart::{Form, Part};
use secrecy::SecretString;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

const SECTION: &str = "transcription";
/// Bytes of an answer: more than hours of speech are in words.
const ANSWER: usize = 4 << 20;

/// The section `transcription` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TranscriptionConfig {
    /// Where the provider's API begins; `audio/transcriptions` is appended. Absent: nobody listens.
    pub base_url: Option<Url>,
    pub name: Option<String>,
    pub api_key: Option<SecretString>,
    pub headers: BTreeMap<String, SecretString>,
    /// What the provider takes, by the endings of file names.
    pub formats: Vec<String>,
    /// Bytes of one recording.
    pub bytes: u64,
    /// How long one recording may take.
    pub seconds: u64,
}

impl Default for TranscriptionConfig {
    fn default() -> Self {
        let formats = ["flac", "m4a", "mp3", "mp4", "ogg", "wav", "webm"];
        Self {
            base_url: None,
            name: None,
            api_key: None,
            headers: BTreeMap::new(),
            formats: formats.map(str::to_owned).to_vec(),
            bytes: 25 << 20,
            seconds: 120,
        }
    }
}

/// The adapter.
pub struct Listening {
    endpoint: Endpoint,
    url: Url,
    model: String,
    formats: Vec<String>,
    bytes: u64,
    seconds: u64,
}

impl Listening {
    /// Prepares the client; reaches nothing yet. Nothing where nobody is to listen.
    pub fn new(config: TranscriptionConfig) -> Result<Option<Self>, ConfigError> {
        let TranscriptionConfig { base_url, name, api_key, headers, formats, bytes, seconds } =
            config;
        let found = Endpoint::with_model(SECTION, base_url, name, api_key, &headers)?;
        let Some((endpoint, model)) = found else { return Ok(None) };
        let url = endpoint.url(&["audio", "transcriptions"]);
        Ok(Some(Self { endpoint, url, model, formats, bytes, seconds }))
    }

    async fn ask(
        &self,
        recording: &FilePart,
        person: PersonId,
        blobs: &dyn Blobs,
    ) -> Result<Transcript, SpeechError> {
        let (blob, pieces) = blobs.get(person, recording.blob.id).await?;
        // Read before anybody is asked: what fails here is the store, and no provider.
        let bytes = pieces.try_collect::<Vec<_>>().await?.concat();
        // Providers go by the ending of the name, and it is nobody's business how it is called here.
        let name = format!("recording.{}", extension(&blob.mime).unwrap_or("bin"));
        let file = Part::bytes(bytes).file_name(name);
        let file = file.mime_str(&blob.mime).map_err(|_| SpeechError::Malformed {
            section: SECTION,
            what: format!("a recording of the media type `{}`", blob.mime),
        })?;
        let form = Form::new()
            .text("model", self.model.clone())
            .text("response_format", "json")
            .part("file", file);
        let unreachable = |error: reqwest::Error| SpeechError::Unreachable {
            section: SECTION,
            url: shown(&self.url),
            source: Box::new(error.without_url()),
        };
        let request = self.endpoint.post(self.url.clone(), "application/json").multipart(form);
        let mut response = request.send().await.map_err(unreachable)?;
        if !response.status().is_success() {
            let error = failure::of_response(response, self.endpoint.key.as_ref()).await;
            return Err(in_section(SECTION, error));
        }
        let mut body = Vec::new();
        while let Some(piece) =
            response.chunk().await.map_err(|_| SpeechError::Cut { section: SECTION })?
        {
            if body.len() + piece.len() > ANSWER {
                return Err(malformed(format!("an answer of more than {ANSWER} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| {
            malformed(format!("an answer of {} bytes that holds no `text`", body.len()))
        })?;
        let Counted { input_tokens, output_tokens, seconds } = answer.usage.unwrap_or_default();
        let usage = Usage { input_tokens, output_tokens };
        // A cast keeps within what the number holds, whatever somebody counted.
        let seconds = seconds.map(|seconds| seconds.ceil() as u64);
        Ok(Transcript { text: answer.text.trim().to_owned(), usage, seconds })
    }
}

#[async_trait]
impl Transcriber for Listening {
    fn refusal(&self, recording: &BlobRef) -> Option<String> {
        let extension = extension(&recording.mime);
        if !extension.is_some_and(|ending| self.formats.iter().any(|taken| taken == ending)) {
            let kind = &recording.mime;
            return Some(format!("`{SECTION}.formats` does not list its format, {kind}"));
        }
        let (size, most) = (recording.size, self.bytes);
        (size > most).then(|| format!("it has {size} bytes, and `{SECTION}.bytes` is {most}"))
    }

    async fn transcribe(
        &self,
        recording: &FilePart,
        person: PersonId,
        blobs: &dyn Blobs,
    ) -> Result<Transcript, SpeechError> {
        let asked = self.ask(recording, person, blobs);
        let late = |_| SpeechError::Late { section: SECTION, seconds: self.seconds };
        timeout(Duration::from_secs(self.seconds), asked).await.map_err(late)?
    }
}

#[derive(Deserialize)]
struct Answer {
    text: String,
    #[serde(default)]
    usage: Option<Counted>,
}

/// Some count tokens, some seconds, some nothing.
#[derive(Default, Deserialize)]
struct Counted {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    seconds: Option<f64>,
}

fn malformed(what: String) -> SpeechError {
    SpeechError::Malformed { section: SECTION, what }
}

/// The ending of a file's name, as providers know it.
fn extension(mime: &str) -> Option<&'static str> {
    let kind = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Some(match kind.as_str() {
        "audio/aac" | "audio/x-aac" | "audio/aacp" => "aac",
        "audio/amr" => "amr",
        "audio/flac" | "audio/x-flac" => "flac",
        "audio/mp4" | "audio/m4a" | "audio/x-m4a" => "m4a",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" | "audio/opus" | "audio/vorbis" => "ogg",
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "wav",
        "audio/webm" => "webm",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::ids::BlobId;

    fn listening(toml: &str) -> Listening {
        Listening::new(toml::from_str(toml).unwrap()).unwrap().unwrap()
    }

    fn recording(mime: &str, size: u64) -> BlobRef {
        BlobRef { id: BlobId::new(), sha256: String::new(), mime: mime.into(), size }
    }

    #[test]
    fn what_is_not_taken_is_named_with_its_key() {
        let all = listening("base_url = 'http://h/v1'\nname = 'whisper-1'\nbytes = 10");
        assert_eq!(all.url.as_str(), "http://h/v1/audio/transcriptions");
        for mime in ["audio/ogg", "audio/ogg; codecs=opus", "audio/mpeg", "audio/x-m4a"] {
            assert_eq!(all.refusal(&recording(mime, 10)), None, "{mime}");
        }
        let refusal = all.refusal(&recording("audio/aac", 10)).unwrap();
        assert_eq!(refusal, "`transcription.formats` does not list its format, audio/aac");
        assert!(all.refusal(&recording("audio/midi", 10)).is_some());
        let refusal = all.refusal(&recording("audio/ogg", 11)).unwrap();
        assert_eq!(refusal, "it has 11 bytes, and `transcription.bytes` is 10");
        let own = listening("base_url = 'http://h/v1'\nname = 'w'\nformats = ['aac']");
        assert_eq!(own.refusal(&recording("audio/aac", 10)), None);
    }

    #[test]
    fn half_a_configuration_says_what_is_missing() {
        let error = |toml: &str| {
            let config = toml::from_str::<TranscriptionConfig>(toml).unwrap();
            Listening::new(config).err().unwrap().to_string()
        };
        assert!(error("name = 'w'").contains("`transcription.base_url` is not set"));
        assert!(error("base_url = 'http://h'").contains("`transcription.name` is not"));
        assert!(error("base_url = 'ftp://h'\nname = 'w'").contains("`transcription.base_url`"));
        assert!(Listening::new(TranscriptionConfig::default()).unwrap().is_none());
    }
}
