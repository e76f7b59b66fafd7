//! A Telegram to try by hand: what is typed is written to the bot, and what the bot sends is shown.
//!
//! ```text
//! cargo run -p famulus-scripted-telegram
//! ```

#![expect(clippy::print_stdout, reason = "a program that is talked to")]

use famulus_scripted_telegram::{Kind, Message, Telegram, User};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::time::interval;

const TOKEN: &str = "42:try-it-by-hand";
/// Between two looks at what the bot sent.
const LOOK: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let telegram = Telegram::start(TOKEN).await?;
    println!("A scripted Telegram. Tell famulus of it:\n");
    println!("  FAMULUS_CHANNELS__TELEGRAM__BASE_URL={}", telegram.base_url());
    println!("  a token of `{TOKEN}`\n");
    println!("Write as Ada. `!N` presses the N-th button of the last message that has some.");
    println!("`~ WORDS` is a voice note in which they are said, `+ FILE` sends a file.");
    let ada = User::new(7, "Ada");
    let mut lines = BufReader::new(stdin()).lines();
    let mut look = interval(LOOK);
    let mut shown: Vec<Message> = Vec::new();
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                None => return Ok(()),
                Some(line) if line.trim().is_empty() => {}
                Some(line) => say(&telegram, &ada, &line),
            },
            _tick = look.tick() => {
                let sent = telegram.sent_to(ada.id);
                for message in &sent {
                    if !shown.contains(message) {
                        show(message);
                    }
                }
                shown = sent;
            }
        }
    }
}

fn say(telegram: &Telegram, user: &User, line: &str) {
    if let Some(number) = line.strip_prefix('!') {
        press(telegram, user, number.trim());
    } else if let Some(words) = line.strip_prefix("~ ") {
        let handle = telegram.keep(words.to_owned());
        let voice = json!({"file_id": handle, "file_unique_id": handle, "duration": 2,
            "mime_type": "audio/ogg", "file_size": words.len()});
        telegram.send(user, &user.chat(), json!({ "voice": voice }));
    } else if let Some(path) = line.strip_prefix("+ ") {
        match std::fs::read(path) {
            Ok(bytes) => {
                let (size, handle) = (bytes.len(), telegram.keep(bytes));
                let name = path.rsplit('/').next().unwrap_or(path);
                let document = json!({"file_id": handle, "file_unique_id": handle,
                    "file_name": name, "file_size": size});
                telegram.send(user, &user.chat(), json!({ "document": document }));
            }
            Err(error) => println!("{path} cannot be read: {error}"),
        }
    } else {
        telegram.write(user, &user.chat(), line);
    }
}

fn press(telegram: &Telegram, user: &User, number: &str) {
    let with_buttons =
        telegram.sent_to(user.id).into_iter().rev().find(|one| !one.buttons.is_empty());
    let Some(message) = with_buttons else {
        println!("there is no button");
        return;
    };
    let buttons: Vec<&(String, String)> = message.buttons.iter().flatten().collect();
    let chosen =
        number.parse::<usize>().ok().and_then(|number| buttons.get(number.wrapping_sub(1)));
    match chosen {
        Some((_, data)) => telegram.press(user, &message, data),
        None => println!("it has {} buttons", buttons.len()),
    }
}

fn show(message: &Message) {
    let file = match &message.kind {
        Kind::Text => String::new(),
        Kind::File { field, name, bytes, .. } => {
            format!("[{field} {name}, {} bytes] ", bytes.len())
        }
    };
    let edited = if message.edits > 0 { " (edited)" } else { "" };
    println!("< {file}{}{edited}", message.text.replace('\n', "\n  "));
    for (number, (text, _)) in message.buttons.iter().flatten().enumerate() {
        println!("  !{} {text}", number + 1);
    }
}
