//! Recordings that the model does not hear become words before it is asked, each once.

use crate::{
    desk::Desk,
    peer::{Peer, says},
};
use async_trait::async_trait;
use famulus_agent::Driven;
use famulus_core::blob::{BlobRef, Blobs};
use famulus_core::ids::{BlobId, PersonId};
use famulus_core::message::{FilePart, Heard};
use famulus_core::model::{ModelRequest, Usage};
use famulus_core::speech::{SpeechError, Transcriber, Transcript};
use famulus_core::turn::TurnState;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What it says of each recording, in order; nothing more means that it never answers.
struct Listener(Mutex<VecDeque<Result<Transcript, SpeechError>>>);

#[async_trait]
impl Transcriber for Listener {
    fn refusal(&self, recording: &BlobRef) -> Option<String> {
        (recording.mime == "audio/aac").then(|| "it is not taken".to_owned())
    }

    async fn transcribe(
        &self,
        _: &FilePart,
        _: PersonId,
        _: &dyn Blobs,
    ) -> Result<Transcript, SpeechError> {
        let next = self.0.lock().pop_front();
        match next {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

fn words(text: &str) -> Transcript {
    let usage = Usage { input_tokens: Some(7), output_tokens: Some(2) };
    Transcript { text: text.into(), usage, seconds: None }
}

fn failed(status: u16) -> SpeechError {
    SpeechError::Failed { section: "transcription", status, message: "no".into() }
}

fn desk(mime: &str, answers: impl IntoIterator<Item = Result<Transcript, SpeechError>>) -> Desk {
    let mut desk = Desk::new();
    let blob = BlobRef { id: BlobId::new(), sha256: String::new(), mime: mime.into(), size: 3 };
    desk.recording = Some(FilePart::new(blob, "voice.ogg"));
    desk.transcriber = Some(Arc::new(Listener(Mutex::new(answers.into_iter().collect()))));
    desk
}

/// What the model read of the recording.
fn read_by(asked: &Mutex<Vec<ModelRequest>>) -> Vec<Option<Heard>> {
    let asked = asked.lock();
    let messages = asked.iter().flat_map(|request| &request.messages);
    let recordings = messages.flat_map(|message| message.recordings());
    recordings.map(|(_, file)| file.heard.clone()).collect()
}

/// Drives a turn to its end; what the model read, and what was recorded.
async fn drive(desk: &Desk) -> (Vec<Option<Heard>>, Vec<Heard>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let peer = Peer::new(move |_, request| {
        seen.lock().push(request.clone());
        says("Good.")
    });
    let driven = desk.drive(peer).await.expect("the record is kept");
    assert_eq!(driven, Driven::Ended(TurnState::Complete));
    (read_by(&asked), desk.heard())
}

#[tokio::test(start_paused = true)]
async fn a_recording_is_read_as_words_and_counted() {
    let desk = desk("audio/ogg", [Ok(words("Good morning."))]);
    let heard = Heard::Words("Good morning.".into());
    assert_eq!(drive(&desk).await, (vec![Some(heard.clone())], vec![heard]));
    let usage = desk.ending().usage;
    assert!(usage.input_tokens >= Some(7) && usage.output_tokens >= Some(2), "{usage:?}");
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_a_moment_is_asked_again_and_what_fails_for_good_is_told() {
    let passing = desk("audio/ogg", [Err(failed(500)), Ok(words("Hello."))]);
    assert_eq!(drive(&passing).await.1, [Heard::Words("Hello.".into())]);

    let down = desk("audio/ogg", (0..9).map(|_| Err(failed(503))));
    let began = Instant::now();
    let (read, recorded) = drive(&down).await;
    assert!(matches!(&recorded[..], [Heard::Nothing(why)] if why.contains("status 503")));
    assert_eq!(read, [Some(recorded[0].clone())]);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());

    let refused =
        SpeechError::Rejected { section: "transcription", status: 400, message: "bad".into() };
    let refused = desk("audio/ogg", [Err(refused)]);
    let (_, recorded) = drive(&refused).await;
    assert!(matches!(&recorded[..], [Heard::Nothing(why)] if why.contains("bad")));

    let silent = desk("audio/ogg", [Ok(words(""))]);
    assert!(matches!(&drive(&silent).await.1[..], [Heard::Nothing(_)]));

    let unfit = desk("audio/aac", []);
    assert_eq!(drive(&unfit).await.1, [Heard::Nothing("it is not taken".into())]);
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_does_not_wait_for_a_provider_that_is_silent() {
    let desk = desk("audio/ogg", []);
    let peer = Peer::new(|_, _| says("Never."));
    let stop = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        desk.stop.cancel();
    };
    let began = Instant::now();
    let (driven, ()) = tokio::join!(desk.drive(peer.clone()), stop);
    assert_eq!(driven.unwrap(), Driven::Ended(TurnState::Cancelled));
    assert_eq!((began.elapsed().as_secs(), peer.asked(), desk.heard().len()), (3, 0, 0));
}
