//! A daemon of signal-cli to try by hand: what is typed is written to our account, and what it sends is
//! shown.
//!
//! ```text
//! cargo run -p famulus-scripted-signal
//! ```

#![expect(clippy::print_stdout, reason = "a program that is talked to")]

use famulus_scripted_signal::{Message, Signal, User};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::time::interval;

/// Between two looks at what was sent.
const LOOK: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let signal = Signal::start().await?;
    println!("A scripted daemon of signal-cli. Tell famulus of it:\n");
    println!("  FAMULUS_CHANNELS__SIGNAL__URL={}", signal.base_url());
    println!("  FAMULUS_CHANNELS__SIGNAL__SERVES_EVERYBODY=true\n");
    println!(
        "Write as Ada. `~ WORDS` is a voice note in which they are said; `& LINK` scans a link."
    );
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
        let id = signal.keep(words.to_owned());
        let recording = json!({"contentType": "audio/mp4", "filename": null, "id": id,
            "size": words.len(), "width": null, "height": null, "caption": null});
        signal.send(user, json!({"message": null, "attachments": [recording]}));
    } else {
        signal.write(user, line);
    }
}

fn show(message: &Message) {
    for file in &message.files {
        println!("< [{}, {} bytes]", file.name, file.bytes.len());
    }
    let edited = if message.edits > 0 { " (edited)" } else { "" };
    println!("< {}{edited}", message.text.replace('\n', "\n  "));
}
