//! C1: a message on Telegram, until the model is asked, until its first words are seen, and from its last
//! word to the message that stays; and what a channel costs on which nobody writes.
//!
//! Telegram is a scripted one in this process. Beside each message one comes over HTTP, which is the
//! floor: what is more is the channel's.

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
use famulus_scripted_telegram::{Telegram, User};
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
    seen: Duration,
    stays: Duration,
}

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let pulse = Arc::new(Pulse::new(WORDS, PACE, 0));
    let model = Model::start(Manner::Steady(Arc::clone(&pulse))).await?;
    let telegram = Telegram::start(TOKEN).await?;
    let base = telegram.base_url();
    let settings = [
        ("FAMULUS_CHANNELS__TELEGRAM__TOKEN__ENV", "BOT"),
        ("BOT", TOKEN),
        ("FAMULUS_CHANNELS__TELEGRAM__BASE_URL", &base),
    ];
    let server = Server::start_with(request, &model.url, &settings).await?;
    let with = idle(&server).await?;
    let other = server.another(request, &model.url).await?;
    let bare = idle(&other).await?;
    other.end().await?;
    let user = let_in(&telegram, &server).await?;
    let tables = seed::tables(&request.url)?;
    let place = *seed::conversations(&tables, 1).await?.first().context("a conversation")?;

    let (mut ways, mut bare_ways) = (Vec::new(), Vec::new());
    for number in 0..request.extent {
        let (chat, http) = (number * 2 + 1, number * 2 + 2);
        ways.push(chatted(&telegram, &user, &model, &pulse, chat).await?);
        let begun = Instant::now();
        let words = text(http);
        let saying = server.owner.say(place, &words);
        let (said, asked) = tokio::join!(saying, asked(&model, http));
        said?;
        bare_ways.push(asked?.duration_since(begun));
        seed::all_ended(&tables).await?;
        sleep(REST).await;
    }
    server.end().await?;
    telegram.stop().await;
    model.end();
    let of = |part: fn(&Way) -> Duration| latency::report(ways.iter().map(part).collect());
    Ok(json!({
        "asked": of(|way| way.asked),
        "seen": of(|way| way.seen),
        "stays": of(|way| way.stays),
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

/// The owner's account, by a code.
async fn let_in(telegram: &Telegram, server: &Server) -> Result<User> {
    let user = User::new(7, "Ada");
    telegram.write(&user, &user.chat(), "let me in");
    let told = telegram.wait_for(user.id, |one| one.text.contains("people pair")).await;
    let bold = told.entities.iter().find(|one| one.kind == "bold").context("a code in bold")?;
    let code: String = told.text.chars().skip(bold.offset).take(bold.length).collect();
    server.owner.post("/v1/pairings", &json!({ "code": code })).await?;
    Ok(user)
}

async fn asked(model: &Model, mark: u64) -> Result<Instant> {
    let begun = Instant::now();
    while model.asked(mark).requests == 0 {
        ensure!(begun.elapsed() < PATIENCE, "the model was not asked for {mark}");
        sleep(LOOK).await;
    }
    Ok(Instant::now())
}

async fn chatted(
    telegram: &Telegram,
    user: &User,
    model: &Model,
    pulse: &Pulse,
    mark: u64,
) -> Result<Way> {
    let (drafts, messages) = (telegram.drafts().len(), telegram.sent_to(user.id).len());
    let told = Instant::now();
    telegram.write(user, &user.chat(), &text(mark));
    let asked = asked(model, mark).await?;
    let mut seen = None;
    loop {
        ensure!(told.elapsed() < PATIENCE, "message {mark} was not answered");
        if seen.is_none() && telegram.drafts().len() > drafts {
            seen = Some(Instant::now());
        }
        if telegram.sent_to(user.id).len() > messages {
            break;
        }
        sleep(LOOK).await;
    }
    let stays = Instant::now();
    let last = pulse.written().last().copied().flatten().context("a last word")?;
    Ok(Way {
        asked: asked.duration_since(told),
        seen: seen.unwrap_or(stays).duration_since(told),
        stays: stays.duration_since(last),
    })
}
