//! The chat platforms of a world, scripted: a Telegram, and a daemon of signal-cli.

use crate::support::seed::Seed;
use anyhow::Result;
use famulus_scripted_signal as signal;
use famulus_scripted_telegram as telegram;
use std::{fmt, time::Duration};

/// As the harness has it.
const TOKEN: &str = "99:known-to-every-crash-test";

pub(crate) struct Platforms {
    pub(crate) telegram: telegram::Telegram,
    pub(crate) signal: signal::Signal,
}

/// Where somebody writes to the assistant, alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chat {
    Telegram(i64),
    Signal(u32),
}

/// As the installation names it.
impl fmt::Display for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Telegram(id) => write!(f, "{id}"),
            Self::Signal(number) => f.write_str(&signal_user(*number).id),
        }
    }
}

/// A message of the assistant's, as it stands in a chat.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// What is in bold, as codes are.
    pub(crate) bold: Option<String>,
    pub(crate) edits: usize,
    pub(crate) has_buttons: bool,
}

impl Platforms {
    pub(crate) async fn start() -> Result<Self> {
        let telegram = telegram::Telegram::start(TOKEN).await?;
        Ok(Self { telegram, signal: signal::Signal::start().await? })
    }

    pub(crate) async fn stop(&self) {
        tokio::join!(self.telegram.stop(), self.signal.stop());
    }

    /// How the harness is told of them.
    pub(crate) fn arguments(&self) -> [(&'static str, String); 2] {
        [("--telegram", self.telegram.base_url()), ("--signal", self.signal.base_url())]
    }

    /// Somebody writes. Returns by which time Signal knows it.
    pub(crate) fn write(&self, chat: Chat, text: &str) -> Option<i64> {
        match chat {
            Chat::Telegram(id) => {
                let user = telegram_user(id);
                self.telegram.write(&user, &user.chat(), text);
                None
            }
            Chat::Signal(number) => Some(self.signal.write(&signal_user(number), text)),
        }
    }

    pub(crate) fn sent_to(&self, chat: Chat) -> Vec<Shown> {
        match chat {
            Chat::Telegram(id) => self.telegram.sent_to(id).into_iter().map(of_telegram).collect(),
            Chat::Signal(number) => {
                let sent = self.signal.sent_to(&signal_user(number).id);
                sent.into_iter().map(of_signal).collect()
            }
        }
    }

    /// Messages that nobody has heard, and that wait to be heard.
    pub(crate) fn unheard(&self) -> usize {
        self.telegram.unconfirmed() + self.signal.waiting()
    }

    /// The platform of a chat has a bad moment.
    pub(crate) fn fault(&self, chat: Chat, seed: &mut Seed) {
        match chat {
            Chat::Telegram(_) => {
                let methods = ["getupdates", "sendmessage", "*"];
                let method = seed.pick(&methods).copied().unwrap_or("*");
                self.telegram.fault(method, bad_telegram(seed));
            }
            Chat::Signal(_) if seed.percent(10) => self.signal.drop_streams(),
            Chat::Signal(_) => {
                let method = seed.pick(&["events", "send", "*"]).copied().unwrap_or("*");
                self.signal.fault(method, bad_signal(seed));
            }
        }
    }
}

pub(crate) fn telegram_user(id: i64) -> telegram::User {
    telegram::User::new(id, &format!("Guest {id}"))
}

fn signal_user(number: u32) -> signal::User {
    signal::User::new(number, &format!("Guest {number}"))
}

fn of_telegram(message: telegram::Message) -> Shown {
    let bold = message.entities.iter().find(|entity| entity.kind == "bold");
    let covered = |offset, length| message.text.chars().skip(offset).take(length).collect();
    Shown {
        bold: bold.map(|bold| covered(bold.offset, bold.length)),
        edits: message.edits,
        has_buttons: !message.buttons.is_empty(),
        text: message.text,
    }
}

fn of_signal(message: signal::Message) -> Shown {
    let bold = message.styles.into_iter().find(|(kind, _)| kind == "BOLD");
    Shown {
        text: message.text,
        bold: bold.map(|(_, text)| text),
        edits: message.edits,
        has_buttons: false,
    }
}

fn bad_telegram(seed: &mut Seed) -> telegram::Fault {
    use telegram::Fault;
    match seed.below(6) {
        0 => Fault::Busy(1),
        1 => Fault::Status(502),
        2 => Fault::CutBefore,
        3 => Fault::CutAfter,
        4 => Fault::Malformed,
        _ => Fault::Slow(Duration::from_millis(400)),
    }
}

fn bad_signal(seed: &mut Seed) -> signal::Fault {
    use signal::Fault;
    match seed.below(5) {
        0 => Fault::Status(502),
        1 => Fault::CutBefore,
        2 => Fault::CutAfter,
        3 => Fault::Malformed,
        _ => Fault::Slow(Duration::from_millis(400)),
    }
}
