//! `text_to_speech`: words become a recording among the files of whoever asks.
//!
//! It goes nowhere by itself: `send_message` sends it like any file. No model sees the tool where
//! nothing speaks.

use crate::builtin::Ports;
use crate::schema::schema_of;
use crate::tool::{Policy, Tool, ToolError, json, typed};
use async_trait::async_trait;
use famulus_core::blob::{BlobError, Blobs};
use famulus_core::speech::Speaker;
use famulus_core::tool::{CallContext, Effect, Repeat, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a recording.
const LARGEST: u64 = 25 << 20;

pub(super) struct TextToSpeech {
    speaker: Option<Arc<dyn Speaker>>,
    blobs: Arc<dyn Blobs>,
}

impl TextToSpeech {
    pub(super) fn new(ports: &Ports) -> Self {
        Self { speaker: ports.speaker.clone(), blobs: Arc::clone(&ports.plugins.blobs) }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    text: String,
}

const POLICY: [Policy; 1] = [Policy::new(None, Effect::External, Repeat::Safe)];

#[async_trait]
impl Tool for TextToSpeech {
    fn name(&self) -> &'static str {
        "text_to_speech"
    }

    fn description(&self) -> &'static str {
        "Makes a recording of a text. Send it with send_message, by its id."
    }

    fn schema(&self) -> Value {
        schema_of::<Arguments>()
    }

    fn policy(&self) -> &[Policy] {
        &POLICY
    }

    fn is_of_use(&self) -> bool {
        self.speaker.is_some()
    }

    /// The provider's own limit ends it sooner.
    fn timeout(&self) -> Duration {
        Duration::from_mins(10)
    }

    async fn run(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let Arguments { text } = typed(arguments)?;
        let Some(speaker) = &self.speaker else {
            return Err(ToolError::call(
                "nothing speaks here; `[speech]` of the configuration names it",
            ));
        };
        let text = text.trim();
        if text.is_empty() {
            return Err(ToolError::call("`text` is empty; give the words to say"));
        }
        let (length, most) = (text.chars().count(), speaker.most());
        if length > most {
            return Err(ToolError::Call(format!(
                "`text` has {length} characters, at most {most} are said at once; shorten it, or make \
                 several recordings"
            )));
        }
        let spoken = speaker.say(text).await.map_err(|error| ToolError::Call(error.to_string()))?;
        let stored = self.blobs.put(context.person.id, &spoken.mime, LARGEST, spoken.bytes).await;
        let blob = match stored {
            Ok(blob) if blob.size > 0 => blob,
            Ok(_) => return Err(ToolError::call("the provider made an empty recording")),
            Err(BlobError::TooLarge { limit }) => {
                return Err(ToolError::Call(format!(
                    "the recording has more than {limit} bytes; shorten the text"
                )));
            }
            Err(BlobError::Cut(error)) => {
                return Err(ToolError::Call(format!("the recording broke off: {error}")));
            }
            Err(error @ (BlobError::Missing { .. } | BlobError::Store(_))) => {
                return Err(ToolError::Call(error.to_string()));
            }
        };
        metrics::counter!("famulus_spoken_characters_total").increment(length as u64);
        let name = format!("speech.{}", spoken.extension);
        json(&serde_json::json!({"id": blob.id, "name": name, "bytes": blob.size}))
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::Bench;
    use serde_json::json;

    #[tokio::test]
    async fn words_become_a_file_of_whoever_asks() {
        let mut bench = Bench::new();
        let made = bench.done("text_to_speech", json!({"text": " Good morning. "})).await;
        assert_eq!((&made["name"], &made["bytes"]), (&json!("speech.ogg"), &json!(13)));
        let stored = bench.blobs.stored();
        let (person, mime, bytes) = stored.last().unwrap();
        assert_eq!(*person, bench.context.person.id);
        assert_eq!((mime.as_str(), bytes.as_slice()), ("audio/ogg", &b"Good morning."[..]));
    }

    #[tokio::test]
    async fn what_cannot_be_said_is_refused_with_the_reason() {
        let mut bench = Bench::new();
        let mut refused =
            async |text: &str| bench.error("text_to_speech", json!({"text": text})).await;
        assert!(refused("  ").await.contains("is empty"));
        assert!(refused(&"a".repeat(101)).await.contains("101 characters, at most 100"));
        assert!(refused("fail").await.contains("`speech`"));
        assert!(refused("cut").await.contains("broke off"));
    }
}
