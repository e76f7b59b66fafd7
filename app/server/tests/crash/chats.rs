//! Every named point on the way of a message from a platform and back, killed before and after.

use crate::{
    alone,
    matrix::{AT_ONCE, Case, Fate, awakened, died, reborn},
    server,
    support::{
        chats::Guest,
        checker::Faults,
        platforms::{Chat, telegram_user},
        script::{Script, Word},
        workload::{Person, Written},
        world::{Settings, World},
    },
};
use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Points that only what comes from a platform reaches, at their first visit; and those of deliveries,
/// of which the first is that of a code, and the third that of a reply.
pub(crate) const POINTS: [(&str, u64); 13] = [
    ("arrival.keep", 1),
    ("arrival.settle", 1),
    ("pairing.ask", 1),
    ("pairing.let_in", 1),
    ("invitation.join", 1),
    ("tell.commit", 1),
    ("delivery.piece", 1),
    ("question.ask", 1),
    ("question.close", 1),
    ("delivery.sending", 1),
    ("delivery.send", 1),
    ("delivery.sending", 3),
    ("delivery.send", 3),
];
/// See [`what_the_store_refuses_is_given_up_once`].
pub(crate) const REFUSED: &str = "arrival.bury";
const GUEST: Chat = Chat::Telegram(7_001);
const OWNER: i64 = 7_002;
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);
/// Tries of what the store refuses.
const TRIES: u32 = 2;

impl<'a> Guest<'a> {
    /// The owner opens a link of their own making.
    async fn owner(world: &'a World, person: &Person, id: i64) -> Result<Self> {
        let platforms = world.platforms.as_ref().context("nobody chats in this world")?;
        let chat = Chat::Telegram(id);
        let body = json!({"channel": "telegram"});
        let invited = person.client.ask(Method::POST, "/v1/invitations", None, Some(&body)).await?;
        let link = invited.1["link"].as_str().unwrap_or_default();
        let (_, secret) = link.split_once("?start=").with_context(|| format!("{invited:?}"))?;
        platforms.write(chat, &format!("/start {secret}"));
        let begun = Instant::now();
        while !platforms.sent_to(chat).iter().any(|one| one.text.starts_with("Hello")) {
            ensure!(begun.elapsed() < PATIENCE, "the link lets nobody in");
            sleep(LOOK).await;
        }
        Ok(Self { world, platforms, chat })
    }

    /// Waits until something stands in the chat that answers it.
    async fn until_answered(&self, written: &Written) -> Result<()> {
        let (begun, number) = (Instant::now(), format!("[{}]", written.number));
        while !self.shown().iter().any(|one| one.text.contains(&number)) {
            ensure!(begun.elapsed() < PATIENCE, "message {} was not answered", written.number);
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Presses the first button of each question as it comes, until told to end.
    async fn press(&self, end: CancellationToken) -> Result<()> {
        let (telegram, user) = (&self.platforms.telegram, telegram_user(OWNER));
        let mut pressed = BTreeSet::new();
        while !end.is_cancelled() {
            for message in telegram.sent_to(OWNER) {
                let button = message.buttons.iter().flatten().next();
                let Some((_, data)) = button.filter(|_| pressed.insert(message.id)) else {
                    continue;
                };
                telegram.press(&user, &message, data);
            }
            sleep(LOOK).await;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_point_between_a_platform_and_a_turn_may_be_the_last() -> Result<()> {
    all_hold(Fate::Dies).await
}

mod soak {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_process_may_stand_still_between_a_platform_and_a_turn() -> anyhow::Result<()> {
        super::all_hold(super::Fate::Stands).await
    }
}

async fn all_hold(fate: Fate) -> Result<()> {
    each_holds(&POINTS, fate, one_case).await
}

/// Both sides of each point in a world of its own, in which people chat.
pub(crate) async fn each_holds(
    points: &[(&'static str, u64)],
    fate: Fate,
    one_case: impl AsyncFn(&World, Case) -> Result<()>,
) -> Result<()> {
    let _turn = alone().await;
    let server = server();
    let one_case = &one_case;
    let cases = points.iter().flat_map(|(point, visit)| {
        ["before", "after"].map(|side| Case { point, side, visit: *visit, fate })
    });
    let outcomes = stream::iter(cases)
        .map(|case| {
            let settings = Settings { max_attempts: 1_000, chats: true, ..Settings::new(&server) };
            async move {
                let held = World::run(settings, async |world| {
                    one_case(world, case).await?;
                    world.check(Faults::Deaths).await
                });
                held.await.err().map(|error| format!("{}: {error:#}", case.plan()))
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect::<Vec<_>>()
        .await;
    ensure!(outcomes.is_empty(), "{} cases failed:\n{}", outcomes.len(), outcomes.join("\n\n"));
    Ok(())
}

async fn one_case(world: &World, case: Case) -> Result<()> {
    world.fleet.start_with(0, &[("FAMULUS_CRASH", &case.plan())]).await?;
    let person = world.person().await?;
    let end = CancellationToken::new();
    let talking = async {
        let guest = Guest::let_in(world, &person, GUEST).await?;
        let owner = Guest::owner(world, &person, OWNER).await?;
        let book = guest.write(&Script { book: true, ..Script::default() });
        let more = guest.write(&Script::new(&[&[Word::C]]));
        let pressing = owner.press(end.clone());
        let settling = async {
            settled(world, &[book, more]).await?;
            end.cancel();
            Ok(())
        };
        tokio::try_join!(pressing, settling)?;
        Ok(())
    };
    let coming_back = async {
        match case.fate {
            Fate::Dies => reborn(world).await,
            Fate::Stands => awakened(world).await,
        }
    };
    tokio::try_join!(talking, coming_back)?;
    Ok(())
}

/// With the lease of an installation, and not the short one of these tests: whoever writes just when the
/// process that listens dies waits for no longer than the documents say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_listens_within_ten_seconds() -> Result<()> {
    const WITHIN: Duration = Duration::from_secs(10);
    /// For the turn itself, on a machine that does other things.
    const ANSWERED: Duration = Duration::from_secs(2);
    let _turn = alone().await;
    let lease = Duration::from_secs(30);
    let settings = Settings { lease, chats: true, ..Settings::new(server()) };
    World::run(settings, async |world| {
        world.fleet.start(0).await?;
        let person = world.person().await?;
        let guest = Guest::let_in(world, &person, GUEST).await?;
        guest.until_answered(&guest.write(&Script::default())).await?;
        world.fleet.start(1).await?;
        world.settle(PATIENCE).await?;
        world.fleet.kill(0).await?;
        let begun = Instant::now();
        guest.until_answered(&guest.write(&Script::default())).await?;
        let took = begun.elapsed();
        eprintln!("another process listened, and answered, after {took:?}");
        ensure!(took < WITHIN + ANSWERED, "nobody listened for {took:?}");
        world.settle(PATIENCE).await?;
        world.check(Faults::Deaths).await
    })
    .await
}

/// Nobody is told it again, and an update of the installation is an orderly end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_ends_in_order_takes_nothing_of_signal_along() -> Result<()> {
    const ENDS: usize = 6;
    let _turn = alone().await;
    let settings = Settings { chats: true, ..Settings::new(server()) };
    World::run(settings, async |world| {
        world.fleet.start(0).await?;
        let person = world.person().await?;
        let guest = Guest::let_in(world, &person, Chat::Signal(7_001)).await?;
        for _ in 0..ENDS {
            for _ in 0..5 {
                guest.write(&Script::default());
            }
            world.fleet.end(0).await?;
            world.fleet.start(0).await?;
        }
        world.settle(PATIENCE).await?;
        let missing = world.missing(&world.log.written()).await?;
        ensure!(missing == 0, "{missing} messages went with a process that ended");
        world.check(Faults::Deaths).await
    })
    .await
}

/// As in an update of an installation with two replicas, in the middle of a conversation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_over_hears_before_the_other_is_deaf() -> Result<()> {
    const UPDATES: usize = 4;
    const PACE: Duration = Duration::from_millis(250);
    let _turn = alone().await;
    let settings = Settings { chats: true, ..Settings::new(server()) };
    World::run(settings, async |world| {
        for place in 0..2 {
            world.fleet.start(place).await?;
        }
        let person = world.person().await?;
        let guest = Guest::let_in(world, &person, Chat::Signal(7_001)).await?;
        guest.platforms.signal.notice_late(true);
        let no_more = CancellationToken::new();
        let writing = async {
            while !no_more.is_cancelled() {
                guest.write(&Script::default());
                sleep(PACE).await;
            }
            Ok::<_, anyhow::Error>(())
        };
        let updating = async {
            for update in 0..UPDATES {
                world.fleet.end(update % 2).await?;
                world.fleet.start(update % 2).await?;
            }
            no_more.cancel();
            Ok(())
        };
        tokio::try_join!(writing, updating)?;
        world.settle(PATIENCE).await?;
        let missing = world.missing(&world.log.written()).await?;
        ensure!(missing == 0, "{missing} messages went with a process that ended");
        world.check(Faults::Deaths).await
    })
    .await
}

/// As while the database is away for long: nobody else can listen then either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_cannot_know_whether_they_listen_goes_on() -> Result<()> {
    const PACE: Duration = Duration::from_millis(250);
    let _turn = alone().await;
    let settings = Settings { chats: true, ..Settings::new(server()) };
    World::run(settings, async |world| {
        world.fleet.start(0).await?;
        let person = world.person().await?;
        let guest = Guest::let_in(world, &person, Chat::Signal(7_001)).await?;
        guest.platforms.signal.notice_late(true);
        let mut held = world.database.admin.begin().await?;
        sqlx::query("select from channel_account for update").execute(&mut *held).await?;
        let begun = Instant::now();
        let writing_for = async |leases| {
            while begun.elapsed() < world.settings.lease * leases {
                guest.write(&Script::default());
                sleep(PACE).await;
            }
        };
        writing_for(3).await;
        held.rollback().await?;
        // In which it would have hung up, and begun again.
        writing_for(6).await;
        world.settle(PATIENCE).await?;
        let missing = world.missing(&world.log.written()).await?;
        ensure!(missing == 0, "{missing} messages went with a stream that was given up");
        world.check(Faults::Deaths).await
    })
    .await
}

/// The transaction in which it keeps what it heard holds the account, and cannot go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_ends_while_it_keeps_something_is_not_held_up_by_itself() -> Result<()> {
    const WAITING: &str = "select count(*) from pg_stat_activity where datname = current_database() \
                           and wait_event_type = 'Lock' and query like '%arrival%'";
    let _turn = alone().await;
    let settings = Settings { chats: true, ..Settings::new(server()) };
    World::run(settings, async |world| {
        world.fleet.start(0).await?;
        let person = world.person().await?;
        let guest = Guest::let_in(world, &person, GUEST).await?;
        let mut held = world.database.admin.begin().await?;
        sqlx::query("lock table arrival in share row exclusive mode").execute(&mut *held).await?;
        let written = guest.write(&Script::default());
        let begun = Instant::now();
        while sqlx::query_scalar::<_, i64>(WAITING).fetch_one(&world.database.admin).await? == 0 {
            ensure!(begun.elapsed() < PATIENCE, "nothing was kept");
            sleep(LOOK).await;
        }
        world.fleet.end(0).await?;
        held.rollback().await?;
        world.fleet.start(0).await?;
        guest.until_answered(&written).await?;
        world.settle(PATIENCE).await?;
        world.check(Faults::Deaths).await
    })
    .await
}

/// As in the middle of an update that brings the channel: a process of before takes over what one of
/// after was sending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_arrived_stays_so_in_a_process_without_the_channel() -> Result<()> {
    const UNKNOWN: &str = "select count(*) from outbox where state = 'unknown'";
    let _turn = alone().await;
    let settings = Settings { chats: true, ..Settings::new(server()) };
    World::run(settings, async |world| {
        // The first delivery is that of a code.
        world.fleet.start_with(0, &[("FAMULUS_CRASH", "delivery.send:after:2")]).await?;
        let person = world.person().await?;
        let guest = Guest::let_in(world, &person, GUEST).await?;
        let written = guest.write(&Script::default());
        died(world).await?;
        world.fleet.start_as(1, Some("--telegram"), &[]).await?;
        let begun = Instant::now();
        while sqlx::query_scalar::<_, i64>(UNKNOWN).fetch_one(&world.database.admin).await? == 0 {
            ensure!(begun.elapsed() < PATIENCE, "nobody said that it may have arrived");
            sleep(LOOK).await;
        }
        world.fleet.start(0).await?;
        world.settle(PATIENCE).await?;
        let number = format!("[{}]", written.number);
        let arrived = guest.shown().into_iter().filter(|one| one.text.contains(&number)).count();
        ensure!(arrived == 1, "it arrived {arrived} times");
        world.check(Faults::Deaths).await
    })
    .await
}

/// Waits until all of it was received and nothing is left to do.
async fn settled(world: &World, written: &[Written]) -> Result<()> {
    const RECEIVED: &str = "select count(*) from message m join turn t on t.id = m.turn_id
        where m.role = 'user' and t.origin ->> 'channel' = 'telegram'";
    let begun = Instant::now();
    loop {
        let received: i64 = sqlx::query_scalar(RECEIVED).fetch_one(&world.database.admin).await?;
        if received >= written.len() as i64 {
            return world.settle(PATIENCE).await;
        }
        ensure!(begun.elapsed() < PATIENCE, "{received} messages were received");
        sleep(LOOK).await;
    }
}

/// The database does not take a message, whatever is tried: it stands among the dead letters, once, what
/// comes behind it is answered, and it is received when somebody mends the database and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_store_refuses_is_given_up_once() -> Result<()> {
    let _turn = alone().await;
    for side in ["before", "after"] {
        let settings = Settings { max_attempts: TRIES, chats: true, ..Settings::new(server()) };
        let case = Case { point: REFUSED, side, visit: 1, fate: Fate::Dies };
        let held = World::run(settings, async |world| refused(world, case).await).await;
        held.with_context(|| case.plan())?;
    }
    Ok(())
}

async fn refused(world: &World, case: Case) -> Result<()> {
    world.fleet.start_with(0, &[("FAMULUS_CRASH", &case.plan())]).await?;
    let person = world.person().await?;
    let guest = Guest::let_in(world, &person, GUEST).await?;
    sqlx::raw_sql(
        "create function refuse() returns trigger language plpgsql as $$ begin
             if position('book' in new.body) > 0 then
                 raise exception 'it is refused' using errcode = 'check_violation';
             end if;
             return new;
         end $$;
         create trigger refuse before insert on message for each row execute function refuse()",
    )
    .execute(&world.database.admin)
    .await?;
    let book = guest.write(&Script { book: true, ..Script::default() });
    let more = guest.write(&Script::default());
    reborn(world).await?;
    guest.until_answered(&more).await?;
    let dead = person.client.get("/v1/queue/dead").await?;
    let jobs = dead["jobs"].as_array().cloned().unwrap_or_default();
    let [letter] = jobs.as_slice() else { anyhow::bail!("the dead letters are {dead}") };
    ensure!(letter["kind"] == "arrival", "the dead letters are {dead}");
    sqlx::raw_sql("drop trigger refuse on message").execute(&world.database.admin).await?;
    let id = letter["id"].as_str().context("it has no id")?;
    let path = format!("/v1/queue/dead/{id}/retry");
    let (status, answer) = person.client.ask(Method::POST, &path, None, Some(&json!({}))).await?;
    ensure!(status == StatusCode::OK, "POST {path}: {status}: {answer}");
    guest.until_answered(&book).await?;
    world.settle(PATIENCE).await?;
    let found = world.violations(Faults::Deaths).await?;
    // It was received behind what came behind it, and that is all.
    let odd: Vec<&String> = found.iter().filter(|line| !line.contains("stands in order")).collect();
    ensure!(odd.is_empty() && found.len() == 1, "{found:?}");
    Ok(())
}
