//! C1: a message on Telegram and one on Signal, until the model is asked, until its first words are seen, and
//! from its last word to the message that stays; and what channels cost on which nobody writes.
//!
//! Telegram and the daemon of signal-cli are scripted ones in this process, which one server hears. Beside each
//! message one comes over HTTP, which is the floor: what is more is the channel's.

use crate::{
    latency,
    memory::processor_time,
    model::{Manner, Model},
    pulse::Pulse,
    request::Request,
    seed,
    server::Server,
};
use anyhow::{Context as _, Result, ensure};
use famulus_scripted_signal::{self as signal, Signal};
use famulus_scripted_telegram::{self as telegram, Telegram};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const TOKEN: &str = "99:known-to-the-benchmark";
/// Words of an answer, and between two.
const WORDS: usize = 40;
const PACE: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(1);
/// Whatever takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two messages, so that each comes into silence.
const REST: Duration = Duration::from_millis(200);
/// What a start leaves to be done is done by then.
const SETTLED: Duration = Duration::from_secs(10);
/// For so long it is looked at what an idle server does.
const IDLE: Duration = Duration::from_secs(30);

/// How long a message took on its way.
struct Way {
    asked: Duration,
    /// Of what is shown while it grows.
    seen: Option<Duration>,
    stays: Duration,
}

/// Where somebody writes.
enum Chat<'a> {
    Telegram(&'a Telegram, telegram::User),
    Signal(&'a Signal, signal::User),
}

impl Chat<'_> {
    fn write(&self, text: &str) {
        let _its_number = match self {
            Self::Telegram(there, user) => there.write(user, &user.chat(), text),
            Self::Signal(there, user) => there.write(user, text),
        };
    }

    /// How often what grows was shown, and how many messages stay.
    fn shown(&self) -> (usize, usize) {
        match self {
            Self::Telegram(there, user) => (there.drafts().len(), there.sent_to(user.id).len()),
            Self::Signal(there, user) => (0, there.sent_to(&user.id).len()),
        }
    }

    /// The code that a stranger is told.
    async fn code(&self) -> Result<String> {
        self.write("let me in");
        let is_told = |text: &str| text.contains("people pair");
        match self {
            Self::Telegram(there, user) => {
                let told = there.wait_for(user.id, |one| is_told(&one.text)).await;
                let bold = told.entities.iter().find(|one| one.kind == "bold");
                let bold = bold.context("a code in bold")?;
                Ok(told.text.chars().skip(bold.offset).take(bold.length).collect())
            }
            Self::Signal(there, user) => {
                let told = there.wait_for(&user.id, |one| is_told(&one.text)).await;
                let bold = told.styles.into_iter().find(|(kind, _)| kind == "BOLD");
                Ok(bold.context("a code in bold")?.1)
            }
        }
    }
}

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let pulse = Arc::new(Pulse::new(WORDS, PACE, 0));
    let model = Model::start(Manner::Steady(Arc::clone(&pulse))).await?;
    let (telegram, signal) = (Telegram::start(TOKEN).await?, Signal::start().await?);
    let (base, daemon) = (telegram.base_url(), signal.base_url());
    let settings = [
        ("FAMULUS_CHANNELS__TELEGRAM__TOKEN__ENV", "BOT"),
        ("BOT", TOKEN),
        ("FAMULUS_CHANNELS__TELEGRAM__BASE_URL", &base),
        ("FAMULUS_CHANNELS__SIGNAL__URL", &daemon),
        ("FAMULUS_CHANNELS__SIGNAL__SERVES_EVERYBODY", "true"),
    ];
    let server = Server::start_with(request, &model.url, &settings).await?;
    let with = idle(&server).await?;
    let other = server.another(request, &model.url).await?;
    let bare = idle(&other).await?;
    other.end().await?;
    let on_telegram = Chat::Telegram(&telegram, telegram::User::new(7, "Ada"));
    let on_signal = Chat::Signal(&signal, signal::User::new(7, "Ada"));
    for chat in [&on_telegram, &on_signal] {
        let code = chat.code().await?;
        server.owner.post("/v1/pairings", &json!({ "code": code })).await?;
    }
    let tables = seed::tables(&request.url)?;
    let place = *seed::conversations(&tables, 1).await?.first().context("a conversation")?;

    let (mut ways, mut signal_ways, mut bare_ways) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..request.extent {
        let mark = number * 3;
        ways.push(chatted(&on_telegram, &model, &pulse, mark + 1).await?);
        seed::all_ended(&tables).await?;
        sleep(REST).await;
        signal_ways.push(chatted(&on_signal, &model, &pulse, mark + 2).await?);
        seed::all_ended(&tables).await?;
        sleep(REST).await;
        let begun = Instant::now();
        let words = text(mark + 3);
        let saying = server.owner.say(place, &words);
        let (said, asked) = tokio::join!(saying, asked(&model, mark + 3));
        said?;
        bare_ways.push(asked?.duration_since(begun));
        seed::all_ended(&tables).await?;
        sleep(REST).await;
    }
    server.end().await?;
    tokio::join!(telegram.stop(), signal.stop());
    model.end();
    let of =
        |ways: &[Way], part: fn(&Way) -> Duration| latency::report(ways.iter().map(part).collect());
    let seen: Vec<Duration> = ways.iter().filter_map(|way| way.seen).collect();
    ensure!(seen.len() == ways.len(), "{} of {} replies were seen to grow", seen.len(), ways.len());
    Ok(json!({
        "asked": of(&ways, |way| way.asked),
        "seen": latency::report(seen),
        "stays": of(&ways, |way| way.stays),
        "signal": {
            "asked": of(&signal_ways, |way| way.asked),
            "stays": of(&signal_ways, |way| way.stays),
        },
        "http": latency::report(bare_ways),
        "idle_mib": with.0 - bare.0,
        "idle_cpu_percent": with.1 - bare.1,
    }))
}

fn text(mark: u64) -> String {
    format!("Go on for a while. [[{mark}]]")
}

/// MiB that an idle server has written, and the share of a core that it takes.
async fn idle(server: &Server) -> Result<(f64, f64)> {
    sleep(SETTLED).await;
    let pid = server.raw_pid();
    let (begun, used) = (Instant::now(), processor_time(pid)?);
    sleep(IDLE).await;
    let used = processor_time(pid)?.saturating_sub(used);
    let share = used.as_secs_f64() / begun.elapsed().as_secs_f64();
    Ok((server.memory()?.anonymous as f64 / 1024.0, share * 100.0))
}

async fn asked(model: &Model, mark: u64) -> Result<Instant> {
    let begun = Instant::now();
    while model.asked(mark).requests == 0 {
        ensure!(begun.elapsed() < PATIENCE, "the model was not asked for {mark}");
        sleep(LOOK).await;
    }
    Ok(Instant::now())
}

async fn chatted(chat: &Chat<'_>, model: &Model, pulse: &Pulse, mark: u64) -> Result<Way> {
    let (drafts, messages) = chat.shown();
    let told = Instant::now();
    chat.write(&text(mark));
    let asked = asked(model, mark).await?;
    let mut seen = None;
    loop {
        ensure!(told.elapsed() < PATIENCE, "message {mark} was not answered");
        let shown = chat.shown();
        if seen.is_none() && shown.0 > drafts {
            seen = Some(told.elapsed());
        }
        if shown.1 > messages {
            break;
        }
        sleep(LOOK).await;
    }
    let stays = Instant::now();
    let last = pulse.written().last().copied().flatten().context("a last word")?;
    Ok(Way { asked: asked.duration_since(told), seen, stays: stays.duration_since(last) })
}
