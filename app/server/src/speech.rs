//! Who listens to recordings and who makes them, as configured.

use crate::config::Config;
use famulus_core::speech::{Speaker, Transcriber};
use famulus_models::{
    ConfigError,
    speech::{Listening, Speaking},
};
use std::sync::Arc;

/// Who listens to recordings, and who makes them.
pub(crate) struct Speech {
    pub(crate) transcriber: Option<Arc<dyn Transcriber>>,
    pub(crate) speaker: Option<Arc<dyn Speaker>>,
}

impl Speech {
    /// Those that the configuration names; reaches nothing yet.
    pub(crate) fn of(config: &Config) -> Result<Self, ConfigError> {
        let listening = Listening::new(config.transcription.clone())?;
        let speaking = Speaking::new(config.speech.clone())?;
        Ok(Self {
            transcriber: listening.map(|it| Arc::new(it) as Arc<dyn Transcriber>),
            speaker: speaking.map(|it| Arc::new(it) as Arc<dyn Speaker>),
        })
    }
}
