//! `famulus channel`: how the chat channels stand, and the way into one.

use famulus_core::clock::{Clock as _, SystemClock};
use qrcode::{Color, QrCode};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

use crate::clean::one_line;
use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::paint::Colour;
use crate::people::find;
use crate::table::{duration, table};
use crate::wire::{BegunLink, Channels, FinishedLink, Invitation};

/// How long somebody may take to scan a code; platforms give up sooner.
const SCANNED: Duration = Duration::from_mins(4);
/// How long a platform may take to send a code, or to register a number.
const REGISTERED: Duration = Duration::from_secs(90);

#[derive(Clone, Debug, clap::Args)]
pub struct ChannelArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Show which are heard, and why one is not (what happens without a subcommand)
    Status,
    /// Link an account to the program of a channel, by a code that a phone scans
    Link {
        /// The channel, such as `signal`
        channel: String,
    },
    /// Register a number of the assistant's own: a code comes to it
    Register {
        /// The channel, such as `signal`
        channel: String,
        /// With its country, such as +491701234567. Whoever had it there before loses it
        number: String,
        /// The address that a solved captcha ends with, where one is asked for
        #[arg(long, value_name = "LINK")]
        captcha: Option<String>,
        /// Have the code said in a call, and not sent as a text message
        #[arg(long)]
        call: bool,
    },
    /// Register it by the code that came
    Verify {
        /// The channel, such as `signal`
        channel: String,
        /// The number that the code came to
        number: String,
        code: String,
        /// Where the number was locked by one
        #[arg(long)]
        pin: Option<String>,
    },
    /// Make a link, good for 15 minutes and once, by which your own account there becomes known
    Pair {
        /// The channel, such as `telegram`
        channel: String,
        /// Of somebody else who is known: their name, or their id
        #[arg(long, value_name = "WHO")]
        person: Option<String>,
    },
}

pub(crate) async fn run(
    args: ChannelArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    match args.action {
        Some(Action::Link { channel }) => link(&channel, args.json, client, output).await,
        Some(Action::Register { channel, number, captcha, call }) => {
            let body =
                json!({"channel": channel, "number": number, "captcha": captcha, "call": call});
            register(&body, args.json, client, output).await
        }
        Some(Action::Verify { channel, number, code, pin }) => {
            let body = json!({"channel": channel, "number": number, "code": code, "pin": pin});
            verify(&body, args.json, client, output).await
        }
        None | Some(Action::Status) => status(args.json, client, output).await,
        Some(Action::Pair { channel, person }) => {
            let person = match person {
                Some(person) => Some(find(&person, client).await?),
                None => None,
            };
            let body = json!({"channel": channel, "person": person});
            pair(&body, args.json, client, output).await
        }
    }
}

async fn link(
    channel: &str,
    as_json: bool,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    let body = json!({ "channel": channel });
    let begun: BegunLink = client.send(Method::POST, &["v1", "links"], &body, "a link").await?;
    let finish = json!({"channel": channel, "link": begun.link});
    if as_json {
        output.print(&format!("{:#}", json!({"link": begun.link})))?;
    } else {
        output.print(&format!(
            "On the phone that has the account, choose to link a device, and scan this within a \
             minute:\n\n{}",
            one_line(&begun.link)
        ))?;
        if let (Some(_), Colour::On) = (output.screen(), output.colour()) {
            output.write(&scannable(&begun.link))?;
        }
    }
    let done: FinishedLink =
        client.wait_for(&["v1", "links", "finish"], &finish, SCANNED, "a linked account").await?;
    let account = one_line(&done.account);
    if as_json {
        return output.print(&format!("{:#}", json!({ "account": account })));
    }
    output.print(&format!(
        "{account} is linked. famulus channel shows when it is heard; then write to it."
    ))
}

async fn register(
    body: &Value,
    as_json: bool,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    let path = ["v1", "registrations"];
    let raw: Value = client.wait_for(&path, body, REGISTERED, "a code that was sent").await?;
    if as_json {
        return output.print(&format!("{raw:#}"));
    }
    let number = one_line(raw["number"].as_str().unwrap_or_default());
    let channel = body["channel"].as_str().unwrap_or_default();
    output.print(&format!(
        "A code is on its way to {number}. Then: famulus channel verify {channel} {number} CODE"
    ))
}

async fn verify(
    body: &Value,
    as_json: bool,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    let path = ["v1", "registrations", "verify"];
    let done: FinishedLink =
        client.wait_for(&path, body, REGISTERED, "a registered number").await?;
    let account = one_line(&done.account);
    if as_json {
        return output.print(&format!("{:#}", json!({ "account": account })));
    }
    output.print(&format!(
        "{account} is registered. famulus channel shows when it is heard; then write to it."
    ))
}

async fn pair(
    body: &Value,
    as_json: bool,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    let (path, what) = (["v1", "invitations"], "an invitation");
    if as_json {
        let raw: Value = client.send(Method::POST, &path, body, what).await?;
        return output.print(&format!("{raw:#}"));
    }
    let made: Invitation = client.send(Method::POST, &path, body, what).await?;
    let left = duration(made.until.duration_since(SystemClock.now()).as_secs_f64().max(0.0));
    output.print(&format!(
        "Open this where the account is, or scan it, and press Start. It is good for {left}, once, and \
         whoever opens it may write as its person: show it to nobody else.\n\n{}",
        one_line(&made.link)
    ))?;
    match (output.screen(), output.colour()) {
        (Some(_), Colour::On) => output.write(&scannable(&made.link)),
        (Some(_), Colour::Off) | (None, _) => Ok(()),
    }
}

/// A QR code, black on white whatever the terminal's colours are; two rows of it in one of text. Empty
/// where the link is too long for one.
fn scannable(link: &str) -> String {
    const MARGIN: usize = 2;
    let Ok(code) = QrCode::new(link) else { return String::new() };
    let (width, dark) = (code.width(), code.to_colors());
    let is_dark = |x: usize, y: usize| {
        let inside = (MARGIN..width + MARGIN).contains(&x) && (MARGIN..width + MARGIN).contains(&y);
        inside && dark[(y - MARGIN) * width + x - MARGIN] == Color::Dark
    };
    let side = width + 2 * MARGIN;
    let mut text = String::from("\n");
    for y in (0..side).step_by(2) {
        let halves = (0..side).map(|x| match (is_dark(x, y), is_dark(x, y + 1)) {
            (true, true) => '█',
            (true, false) => '▀',
            (false, true) => '▄',
            (false, false) => ' ',
        });
        text.push_str("\x1b[30;107m");
        text.extend(halves);
        text.push_str("\x1b[0m\n");
    }
    text
}

async fn status(as_json: bool, client: &Client, output: &mut Output) -> Result<(), Error> {
    let path = ["v1", "channels"];
    if as_json {
        let raw: Value = client.get(&path, &[], "a list of channels").await?;
        return output.print(&format!("{raw:#}"));
    }
    let found: Channels = client.get(&path, &[], "a list of channels").await?;
    if found.channels.is_empty() {
        return output.print("no chat channel is configured; docs/CHANNELS.md says how");
    }
    let now = SystemClock.now();
    let rows: Vec<Vec<String>> = found
        .channels
        .iter()
        .map(|one| {
            let since = duration(now.duration_since(one.since).as_secs_f64().max(0.0));
            let state = match (&one.down, one.listening) {
                (Some(why), _) => format!("down for {since}: {}", one_line(why)),
                (None, true) => format!("heard for {since}"),
                (None, false) => "nobody listens".to_owned(),
            };
            let account = one.name.as_deref().or(one.account.as_deref());
            let account = one_line(account.unwrap_or("not known yet"));
            vec![one.channel.clone(), account, state]
        })
        .collect();
    output.print(&table(&["channel", "account", "state"], &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read back as a camera does: by what is dark.
    #[test]
    fn what_is_shown_is_the_code_in_its_margin() {
        let link = "https://t.me/famulus_bot?start=AAAAAAAAAAAAAAAAAAAAAA";
        let shown = scannable(link);
        let lines = shown.trim_start_matches('\n').lines();
        let bare = |line: &str| -> Vec<char> {
            let line = line.strip_prefix("\x1b[30;107m").unwrap();
            line.strip_suffix("\x1b[0m").unwrap().chars().collect()
        };
        let rows: Vec<Vec<bool>> = lines
            .map(bare)
            .flat_map(|line| {
                let of = |marks: [char; 2]| line.iter().map(|half| marks.contains(half)).collect();
                [of(['█', '▀']), of(['█', '▄'])]
            })
            .collect();
        let code = QrCode::new(link).unwrap();
        let width = code.width();
        assert!(rows.len() >= width + 4 && rows.iter().all(|row| row.len() == width + 4));
        for (y, row) in rows.iter().enumerate() {
            for (x, dark) in row.iter().enumerate() {
                let inside = (2..width + 2).contains(&x) && (2..width + 2).contains(&y);
                let expected = inside && code[(x - 2, y - 2)] == Color::Dark;
                assert_eq!(*dark, expected, "{x} {y}");
            }
        }
        assert_eq!(scannable(&"x".repeat(9_000)), "");
    }
}
