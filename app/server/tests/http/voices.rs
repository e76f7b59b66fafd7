//! What is said into a phone is understood, and what is to be said aloud comes as a voice note.

use crate::signal;
use crate::telegram::{TOKEN, let_in, setup};
use crate::world::{self, Setup};
use famulus_models::scripted::{Scenario, Scripted};
use famulus_scripted_signal::Signal;
use famulus_scripted_telegram::{Kind, Message, Telegram, User};
use serde_json::{Value, json};

fn voice(telegram: &Telegram, words: &str) -> Value {
    let handle = telegram.keep(words.to_owned());
    json!({"voice": {"file_id": handle, "file_unique_id": handle, "duration": 2,
        "mime_type": "audio/ogg", "file_size": words.len()}})
}

fn with_voices(setup: Setup, provider: &Scripted) -> Setup {
    let base = provider.base_url();
    setup.set(move |config| {
        config.transcription.base_url = Some(base.clone());
        config.transcription.name = Some("whisper-1".to_owned());
        config.speech.base_url = Some(base);
        config.speech.name = Some("tts-1".to_owned());
    })
}

#[tokio::test]
async fn a_voice_note_is_understood_and_answered_by_one() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    let provider = Scripted::start().await.unwrap();
    world::run(with_voices(setup(&telegram), &provider), async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &telegram, &ada, true).await;
        telegram.send(&ada, &ada.chat(), voice(&telegram, "Remember that my cat is called Miso"));
        telegram.wait_for(7, |one| one.text == "I will remember: my cat is called Miso").await;

        // The words stand beside the recording, which is kept, and they were counted.
        let messages = world.owner.messages("main").await;
        let spoken = messages.iter().find(|one| one["role"] == "user").unwrap();
        let parts = spoken["parts"].as_array().unwrap();
        let recording = parts.iter().find(|part| part["type"] == "audio").unwrap();
        assert_eq!(recording["heard"]["words"], "Remember that my cat is called Miso");
        let id = recording["blob"]["id"].as_str().unwrap();
        let kept = world.owner.get(&format!("/v1/blobs/{id}")).await;
        assert_eq!(kept.status, 200, "{}", kept.body);
        let asked = provider.received();
        assert_eq!(asked.iter().filter(|one| one.path.ends_with("transcriptions")).count(), 1);

        // A later turn does not listen again.
        telegram.write(&ada, &ada.chat(), "What is my cat called?");
        telegram.wait_for(7, |one| one.text.contains("You told me")).await;
        assert_eq!(provider.received().len(), asked.len());

        telegram.write(&ada, &ada.chat(), "Say good morning");
        let is_file = |one: &Message| matches!(one.kind, Kind::File { .. });
        let said = telegram.wait_for(7, is_file).await;
        let Kind::File { field, bytes, .. } = &said.kind else { panic!("{said:?}") };
        assert_eq!((field.as_str(), bytes.as_ref()), ("voice", b"good morning".as_slice()));
        telegram.wait_for(7, |one| one.text == "I have said it.").await;

        // What fails for good is told in a sentence.
        provider.push(Scenario::Status(400));
        telegram.send(&ada, &ada.chat(), voice(&telegram, "hello"));
        let told = telegram.wait_for(7, |one| one.text.contains("could not hear")).await;
        assert!(told.text.contains("refused the request (status 400)"), "{told:?}");
    })
    .await;
}

#[tokio::test]
async fn where_nobody_listens_whoever_speaks_is_told() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &telegram, &ada, false).await;
        telegram.send(&ada, &ada.chat(), voice(&telegram, "hello"));
        let told = telegram.wait_for(7, |one| one.text.contains("could not hear")).await;
        assert!(told.text.contains("[transcription]"), "{told:?}");
    })
    .await;
}

/// What the provider takes is heard; what it does not take is told, and with which key to let it.
#[tokio::test]
async fn voices_come_and_go_on_signal_too() {
    let daemon = Signal::start().await.unwrap();
    let provider = Scripted::start().await.unwrap();
    world::run(with_voices(signal::setup(&daemon), &provider), async |world| {
        let ada = famulus_scripted_signal::User::new(7, "Ada");
        signal::let_in(world, &daemon, &ada, true).await;
        let speak = |words: &str, media_type: &str| {
            let id = daemon.keep(words.to_owned());
            let attachment = json!({"contentType": media_type, "filename": null, "id": id,
                "size": words.len(), "width": null, "height": null, "caption": null});
            daemon.send(&ada, json!({"message": null, "attachments": [attachment]}));
        };
        speak("Remember that my cat is called Miso", "audio/mp4");
        daemon.wait_for(&ada.id, |one| one.text.contains("I will remember")).await;
        speak("What is my cat called?", "audio/aac");
        let told = daemon.wait_for(&ada.id, |one| one.text.contains("could not hear")).await;
        assert!(told.text.contains("transcription.formats"), "{told:?}");
        daemon.write(&ada, "Say good morning");
        let said = daemon.wait_for(&ada.id, |one| !one.files.is_empty()).await;
        assert_eq!(said.files[0].bytes.as_ref(), b"good morning");
        assert!(said.is_voice, "{said:?}");
    })
    .await;
}
