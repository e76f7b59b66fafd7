//! Files and recordings, in and out.

use super::Chat;
use famulus_core::message::Heard;

#[test]
fn a_file_without_a_word_is_taken() {
    let mut chat = Chat::default();
    chat.get_file_with("");
    assert!(chat.reply().starts_with("I have a cat.png."));
    chat.get_file_with("remember that this is Miso");
    assert_eq!(chat.reply(), "I will remember: this is Miso");
}

#[test]
fn a_file_goes_back() {
    let mut chat = Chat::default();
    assert_eq!(chat.say("send me the file"), "I have no file of yours. Send me one first.");
    chat.get_file();
    assert_eq!(chat.say("Send it back!"), "I have sent you a cat.png.");
    let call = r#"send_message {"action":"send","files":[{"id":"b1","name":"a cat.png"}]}"#;
    assert_eq!(chat.steps, [[call]]);
}

#[test]
fn a_recording_is_answered_like_words() {
    let mut chat = Chat::default();
    chat.get_recording(Some(Heard::Words("Remember that I like tea.".into())));
    assert_eq!(chat.reply(), "I will remember: I like tea");
    chat.get_recording(Some(Heard::Nothing("it was refused".into())));
    assert_eq!(chat.reply(), "I could not hear your recording: it was refused.");
    chat.get_recording(None);
    assert!(chat.reply().contains("`[transcription]`"));
    assert_eq!(chat.say("say good morning"), "I have said it.");
    let made = r#"text_to_speech {"text":"good morning"}"#;
    let sent = r#"send_message {"action":"send","files":[{"id":"f1","name":"speech.ogg"}]}"#;
    assert_eq!(chat.steps, [[made], [sent]]);
}
