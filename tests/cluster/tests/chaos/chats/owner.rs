//! What docs/CHANNELS.md shows, done by the owner on both messengers and at a terminal, in their one
//! conversation.

use famulus_cluster_tests::kubectl::{LONG, kubectl, until};
use famulus_cluster_tests::release::name;
use famulus_scripted_telegram::{Telegram, User};

use super::guest::{Guest, Messenger};
use super::{signal, telegram};

pub(crate) async fn does_what_the_guide_shows(telegram: &Telegram, daemon: &signal::Daemon) {
    let phone = telegram::Writer { telegram, user: User::new(7_002, "Owner") };
    let other = signal::Writer::new(daemon, signal::user(9, "Owner"));
    let (phone, other) = (paired(phone).await, paired(other).await);

    phone.messenger.write("Remind me in 1 minute to drink tea").await;
    phone.is_told("I will remind you").await;
    phone.messenger.write("Remember that my cat is called Miso").await;
    phone.is_told("I will remember: my cat").await;
    other.messenger.write("What is my cat called?").await;
    other.is_told("You told me: my cat is called Miso").await;
    let said = at_a_terminal(&["chat", "Remember that my ship is called Argo"]).await;
    assert!(said.contains("I will remember: my ship"), "{said}");
    phone.messenger.write("What is my ship called?").await;
    phone.is_told("You told me: my ship is called Argo").await;
    is_one_conversation(&at_a_terminal(&["history", "60"]).await);

    other.messenger.write("Forget my cat").await;
    let question = other.is_told("/approve ").await.text;
    let (_, rest) = question.split_once("/approve ").unwrap();
    let code: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    other.messenger.write(&format!("/approve {code}")).await;
    other.is_told("I have forgotten").await;

    other.messenger.speak("Remember that my dog is called Argos").await;
    other.is_told("I will remember: my dog").await;
    phone.messenger.write("Forget my dog").await;
    press(telegram, &phone.messenger.user, "Approve").await;
    phone.is_told("I have forgotten").await;
    other.messenger.write("Say good morning").await;
    until("words come as a voice note", LONG, async || {
        let files = other.messenger.sent().await.into_iter().flat_map(|one| one.files);
        let is_said = files.into_iter().any(|bytes| bytes == b"good morning");
        if is_said { Ok(()) } else { Err("there is none".to_owned()) }
    })
    .await;
    let reminder = phone.is_told("Reminder").await;
    assert!(reminder.text.contains("drink tea"), "{reminder:?}");
}

/// By the command of the document.
async fn paired<M: Messenger>(messenger: M) -> Guest<M> {
    let guest = Guest::stranger(messenger);
    let code = guest.is_told_a_code().await;
    at_a_terminal(&["people", "pair", &code, "--me"]).await;
    guest
}

/// `famulus WORDS` in a Pod of the app: what it prints.
async fn at_a_terminal(words: &[&str]) -> String {
    let (namespace, app) = (name(), format!("deployment/{}", name()));
    let command = ["-n", &namespace, "exec", &app, "--", "famulus"];
    kubectl(&[&command[..], words].concat()).await
}

/// What was written on the phone, on the other messenger and at the terminal stands there in that order.
fn is_one_conversation(history: &str) {
    let mut left = history;
    for words in [
        "Remind me in 1 minute to drink tea",
        "What is my cat called?",
        "my cat is called Miso",
        "Remember that my ship is called Argo",
        "What is my ship called?",
    ] {
        let (_, behind) = left.split_once(words).unwrap_or_else(|| panic!("{words}: {history}"));
        left = behind;
    }
}

/// Presses a button of the question.
async fn press(telegram: &Telegram, user: &User, label: &str) {
    let (question, data) = until("a question has buttons", LONG, async || {
        let sent = telegram.sent_to(user.id);
        let found = sent.iter().rev().find_map(|message| {
            let mut buttons = message.buttons.iter().flatten();
            let (_, data) = buttons.find(|(text, _)| text.contains(label))?;
            Some((message.clone(), data.clone()))
        });
        found.ok_or_else(|| format!("{sent:?}"))
    })
    .await;
    telegram.press(user, &question, &data);
}
