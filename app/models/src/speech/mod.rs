//! Speech by endpoints that speak OpenAI's protocol: [`listening`] turns recordings into text,
//! [`speaking`] text into recordings.
//!
//! Refuses to know: turns, tools, channels. Nothing is converted: a provider is sent what it says it
//! takes, as it came.

mod listening;
mod speaking;

pub use listening::{Listening, TranscriptionConfig};
pub use speaking::{Speaking, SpeechConfig};

use famulus_core::model::ModelError;
use famulus_core::speech::SpeechError;

/// What went wrong, in the words of this section.
fn in_section(section: &'static str, error: ModelError) -> SpeechError {
    match error {
        ModelError::Unreachable { url, source } => {
            SpeechError::Unreachable { section, url, source }
        }
        ModelError::Busy { status, after } => SpeechError::Busy { section, status, after },
        ModelError::Failed { status, message } => SpeechError::Failed { section, status, message },
        ModelError::Unauthorized { status } => SpeechError::Unauthorized { section, status },
        ModelError::Rejected { status, message } => {
            SpeechError::Rejected { section, status, message }
        }
        ModelError::Cut => SpeechError::Cut { section },
        ModelError::Silent { seconds } => SpeechError::Late { section, seconds },
        ModelError::Malformed { what } => SpeechError::Malformed { section, what },
        ModelError::Unknown { name } => {
            SpeechError::Malformed { section, what: format!("a model `{name}`") }
        }
    }
}
