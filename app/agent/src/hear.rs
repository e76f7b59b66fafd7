//! Before a model reads recordings that it cannot hear, somebody listens to them.
//!
//! What was heard becomes a part of the message and is recorded before the model is asked, so that a
//! recording is listened to once, whoever works on the turn, and the model reads the same ever after.

use crate::run::Run;
use famulus_core::{
    StoreError,
    blob::BlobError,
    message::{FilePart, Heard, MessageRole, PartBody},
    speech::{SpeechError, Transcriber},
};
use std::{ops::ControlFlow, sync::Arc};

/// Tries after the first.
const RETRIES: u32 = 3;

/// How far listening came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listened {
    ToAll,
    /// Somebody ended the turn.
    Stopped,
    /// The lease is gone, or this process must give its work up.
    Abandoned,
}

impl Run<'_> {
    /// Listens to what came with the turn's messages and no model has read.
    pub(crate) async fn listen(&mut self) -> Result<Listened, StoreError> {
        let Some(transcriber) = self.driver.transcriber.clone() else {
            return Ok(Listened::ToAll);
        };
        for (place, part, recording) in self.unheard() {
            let heard = match transcriber.refusal(&recording.blob) {
                Some(why) => Heard::Nothing(why),
                None => match self.listen_to(transcriber.as_ref(), &recording).await? {
                    ControlFlow::Continue(heard) => heard,
                    ControlFlow::Break(ended) => return Ok(ended),
                },
            };
            let outcome = match &heard {
                Heard::Words(_) => "words",
                Heard::Nothing(_) => "nothing",
            };
            metrics::counter!("famulus_transcriptions_total", "outcome" => outcome).increment(1);
            let message = self.turn.history[place].id;
            let log = &self.driver.log;
            log.record_heard(self.fence, self.turn.id, message, part, &heard).await?;
            let message = Arc::make_mut(&mut self.turn.history[place]);
            if let PartBody::Audio(file) = &mut message.parts[part].body {
                file.heard = Some(heard);
            }
        }
        Ok(Listened::ToAll)
    }

    /// The recordings of this turn that its model does not hear: message, part, file.
    fn unheard(&self) -> Vec<(usize, usize, FilePart)> {
        let name = self.turn.agent.model.as_deref();
        let is_unheard = |file: &FilePart| {
            file.heard.is_none() && !self.driver.model.hears(name, &file.blob.mime)
        };
        let mut unheard = Vec::new();
        for (place, message) in self.turn.history.iter().enumerate() {
            if message.role == MessageRole::User && message.turn == Some(self.turn.id) {
                let recordings = message.recordings().filter(|(_, file)| is_unheard(file));
                unheard.extend(recordings.map(|(part, file)| (place, part, file.clone())));
            }
        }
        unheard
    }

    async fn listen_to(
        &mut self,
        transcriber: &dyn Transcriber,
        recording: &FilePart,
    ) -> Result<ControlFlow<Listened, Heard>, StoreError> {
        let blobs = Arc::clone(&self.driver.blobs);
        let mut tried = 0;
        loop {
            let started = tokio::time::Instant::now();
            let asked = transcriber.transcribe(recording, self.turn.host, blobs.as_ref());
            let answer = tokio::select! {
                biased;
                () = self.abandon.cancelled() => return Ok(ControlFlow::Break(Listened::Abandoned)),
                () = self.stop.cancelled() => return Ok(ControlFlow::Break(Listened::Stopped)),
                answer = asked => answer,
            };
            metrics::histogram!("famulus_transcription_seconds")
                .record(started.elapsed().as_secs_f64());
            let error = match answer {
                Ok(transcript) => {
                    self.usage.add(transcript.usage);
                    let seconds = transcript.seconds.unwrap_or_default();
                    metrics::counter!("famulus_transcribed_seconds_total").increment(seconds);
                    let heard = match transcript.text {
                        text if text.is_empty() => {
                            Heard::Nothing("no words were understood in it".to_owned())
                        }
                        text => Heard::Words(text),
                    };
                    return Ok(ControlFlow::Continue(heard));
                }
                // Whoever goes on from the record listens again.
                Err(SpeechError::File(BlobError::Store(source))) => {
                    return Err(StoreError::Unavailable(source));
                }
                Err(error) => error,
            };
            tracing::warn!(error = %error, tried, "a recording was not heard");
            self.patience.lose(started.elapsed());
            let Some(pause) = self.patience.pause(error.disposition(), tried, RETRIES) else {
                return Ok(ControlFlow::Continue(Heard::Nothing(error.to_string())));
            };
            tried += 1;
            tokio::select! {
                () = self.abandon.cancelled() => return Ok(ControlFlow::Break(Listened::Abandoned)),
                () = self.stop.cancelled() => return Ok(ControlFlow::Break(Listened::Stopped)),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}
