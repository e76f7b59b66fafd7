//! A daemon of signal-cli to try by hand: what is typed is written to our account, and what it sends is
//! shown.
//!
//! ```text
//! cargo run -p famulus-scripted-signal
//! ```
//!
//! With the words that start the real daemon it is one in its place, which a test scripts: see [`daemon`].

#![expect(clippy::print_stdout, reason = "a program that is talked to")]

mod daemon;

use famulus_scripted_signal::{Message, Signal, User};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::time::interval;

/// Between two looks at what was sent.
const LOOK: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.is_empty() {
        return daemon::run(&words).await;
    }
    let signal = Signal::start().await?;
    println!("A scripted daemon of signal-cli. Tell famulus of it:\n");
    println!("  FAMULUS_CHANNELS__SIGNAL__URL={}", signal.base_url());
    println!("  FAMULUS_CHANNELS__SIGNAL__SERVES_EVERYBODY=true\n");
    println!(
        "Write as Ada. `~ WORDS` is a voice note in which they are said, `+ FILE` sends a file;"
    );
    println!("`& LINK` scans a link.");
    let ada = User::new(7, "Ada");
    let mut lines = BufReader::new(stdin()).lines();
    let mut look = interval(LOOK);
    let mut shown: Vec<Message> = Vec::new();
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                None => return Ok(()),
                Some(line) if line.trim().is_empty() => {}
                Some(line) => say(&signal, &ada, &line),
            },
            _tick = look.tick() => {
                let sent = signal.sent_to(&ada.id);
                for message in sent.iter().filter(|message| !shown.contains(message)) {
                    show(message);
                }
                shown = sent;
            }
        }
    }
}

fn say(signal: &Signal, user: &User, line: &str) {
    if let Some(link) = line.strip_prefix("& ") {
        signal.scan(link.trim(), &User::new(98, "Another phone"));
    } else if let Some(words) = line.strip_prefix("~ ") {
        send(signal, user, "audio/mp4", None, words.to_owned().into());
    } else if let Some(path) = line.strip_prefix("+ ") {
        match std::fs::read(path) {
            Ok(bytes) => {
                let name = path.rsplit('/').next().unwrap_or(path);
                send(signal, user, "application/octet-stream", Some(name), bytes);
            }
            Err(error) => println!("{path} cannot be read: {error}"),
        }
    } else {
        signal.write(user, line);
    }
}

fn send(signal: &Signal, user: &User, media_type: &str, name: Option<&str>, bytes: Vec<u8>) {
    let (size, id) = (bytes.len(), signal.keep(bytes));
    let file = json!({"contentType": media_type, "filename": name, "id": id, "size": size,
        "width": null, "height": null, "caption": null});
    signal.send(user, json!({"message": null, "attachments": [file]}));
}

fn show(message: &Message) {
    for file in &message.files {
        println!("< [{}, {} bytes]", file.name, file.bytes.len());
    }
    let edited = if message.edits > 0 { " (edited)" } else { "" };
    println!("< {}{edited}", message.text.replace('\n', "\n  "));
}
