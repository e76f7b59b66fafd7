//! A Telegram to try by hand: what is typed is written to the bot, and what the bot sends is shown.
//!
//! ```text
//! cargo run -p famulus-scripted-telegram
//! ```

#![expect(clippy::print_stdout, reason = "a program that is talked to")]

use famulus_scripted_telegram::{Kind, Message, Telegram, User};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::time::interval;

const TOKEN: &str = "42:try-it-by-hand";
/// Between two looks at what the bot sent.
const LOOK: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let telegram = Telegram::start(TOKEN).await?;
    // The bot may know what one that ran before has told it.
    telegram.count_from(now());
    println!("A scripted Telegram. Tell famulus of it:\n");
    println!("  FAMULUS_CHANNELS__TELEGRAM__BASE_URL={}", telegram.base_url());
    println!("  a token of `{TOKEN}`\n");
    println!("Write as Ada. `!N` presses the N-th button of the last message that has some.");
    println!(
        "`~ WORDS` is a voice note in which they are said, `+ FILE` sends a file, and a link that"
    );
    println!("begins with https://t.me/ is opened. A reply that grows is shown behind `...`.");
    let ada = User::new(7, "Ada");
    let mut lines = BufReader::new(stdin()).lines();
    let mut look = interval(LOOK);
    let mut shown: Vec<Message> = Vec::new();
    let mut drafts = 0;
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                None => return Ok(()),
                Some(line) if line.trim().is_empty() => {}
                Some(line) => say(&telegram, &ada, &line),
            },
            _tick = look.tick() => {
                let growing = telegram.drafts();
                if let Some((_, text)) = growing[drafts..].last() {
                    println!("... {}", text.replace('\n', "\n    "));
                }
                drafts = growing.len();
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

#[expect(clippy::disallowed_methods, reason = "nobody moves the time of who types")]
fn now() -> i64 {
    Timestamp::now().as_second()
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
                telegram.send(user, &user.chat(), file(telegram, path, bytes));
            }
            Err(error) => println!("{path} cannot be read: {error}"),
        }
    } else if let Some(start) = started_by(line) {
        telegram.write(user, &user.chat(), &format!("/start {start}"));
    } else {
        telegram.write(user, &user.chat(), line);
    }
}

/// A file as people send it: pictures as pictures, in one size.
fn file(telegram: &Telegram, path: &str, bytes: Vec<u8>) -> Value {
    let (size, handle) = (bytes.len(), telegram.keep(bytes));
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
    if matches!(ending.as_deref(), Some("jpg" | "jpeg" | "png" | "webp")) {
        let only = json!({"file_id": handle, "file_unique_id": handle, "width": 640,
            "height": 480, "file_size": size});
        return json!({ "photo": [only] });
    }
    let document = json!({"file_id": handle, "file_unique_id": handle, "file_name": name,
        "file_size": size});
    json!({ "document": document })
}

/// What a link to the bot has it told when *Start* is pressed.
fn started_by(line: &str) -> Option<&str> {
    line.trim().strip_prefix("https://t.me/")?.split_once("?start=").map(|(_, start)| start)
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
