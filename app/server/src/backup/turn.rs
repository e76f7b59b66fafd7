//! One turn on a restored database: it can be worked on, too, and not only read.
//!
//! Nothing else is begun there and nothing leaves it. The turn is leased as its message is stored, so
//! that nobody claims; the demo model answers; there are no tools, no channels, no viewers, and no
//! worker of turns, deliveries or schedules.

use crate::config::Turns;
use anyhow::{Context, ensure};
use famulus_agent::{Driven, Driver};
use famulus_channels::http::entry;
use famulus_core::{
    Clock,
    agent::Grants,
    clock::SystemClock,
    event::{Envelope, EventId, List, Viewers},
    ids::{ConversationId, PersonId, TurnId},
    inbound::{Inbound, Meeting, Source, Target},
    message::ToolCall,
    person::Person,
    sent::{Sent, inbound},
    tool::{CheckedCall, ToolOutput, ToolSpec, Tools},
    turn::TurnState,
};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_models::Models;
use famulus_store::{Connect, MAIN_AGENT, Store};
use futures::FutureExt;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Nobody renews the lease, so it has to last for the whole turn.
const LEASE: Duration = Duration::from_mins(2);
const DRAIN: Duration = Duration::from_secs(5);
const QUESTION: &str = "Say hello.";

/// Asks the demo model one turn in the owner's name, in a conversation of its own.
///
/// # Errors
/// The turn did not come to a good end.
pub(super) async fn one_turn(url: &str) -> anyhow::Result<()> {
    let tasks = Tasks::new();
    let connect = Connect { lease: LEASE, ..Connect::new(url) };
    let (store, background) = Store::connect(connect, tasks.token()).await?;
    for (name, task) in background.tasks {
        tasks.spawn(name, OnExit::ShutDown, task);
    }
    let answered = answered(&store).boxed().await;
    let _stragglers_were_told = tasks.drain(DRAIN).await;
    store.close().await;
    answered
}

async fn answered(store: &Store) -> anyhow::Result<()> {
    // A sound database has an owner.
    let (owner, is_new) = store.ensure_owner("Owner", "UTC").await?;
    ensure!(!is_new, "the restored database has no owner");
    let (accepted, lease) = store.accept_leased(question(&owner)).await?;
    let lease = lease.context("the turn of a new conversation was not leased")?;
    let driver = driver(store)?;
    let never = CancellationToken::new();
    let driven = driver.drive(&lease.fence, TurnId(lease.job.id), &never, &never).await?;
    ensure!(
        driven == Driven::Ended(TurnState::Complete),
        "the turn that was asked for ended as {driven:?}"
    );
    let turn = store.turn(lease.fence.person, accepted.turn).await?;
    let text = turn.and_then(|turn| turn.text).unwrap_or_default();
    ensure!(!text.trim().is_empty(), "the turn that was asked for has no reply");
    Ok(())
}

fn question(owner: &Person) -> Inbound {
    let entry = entry(owner);
    let conversation = entry.own_key(owner, MAIN_AGENT, ConversationId::new());
    let sent = Sent {
        text: QUESTION.to_owned(),
        attachments: Vec::new(),
        sender: None,
        source: Source::Cli,
        conversation: None,
        agent: MAIN_AGENT,
        key: None,
        meeting: Meeting::Queue,
        continues: None,
    };
    let inbound = inbound(owner, entry, sent, SystemClock.now());
    Inbound { target: Target::Key(conversation), ..inbound }
}

fn driver(store: &Store) -> anyhow::Result<Driver> {
    let store = Arc::new(store.clone());
    Ok(Driver {
        log: store.clone(),
        events: store.clone(),
        viewers: Arc::new(Nobody),
        model: Models::from_config(famulus_models::Config::default())?,
        transcriber: None,
        tools: Arc::new(NoTools),
        knowledge: store.clone(),
        blobs: store,
        clock: Arc::new(SystemClock),
        channels: Arc::default(),
        limits: Turns::default().limits(),
    })
}

struct NoTools;

impl Tools for NoTools {
    fn catalogue(&self, _grants: &Grants) -> Vec<ToolSpec> {
        Vec::new()
    }

    fn checked<'a>(
        &'a self,
        _call: &ToolCall,
        _grants: &Grants,
    ) -> Result<Arc<dyn CheckedCall + 'a>, ToolOutput> {
        Err(ToolOutput::Error("there are no tools here".to_owned()))
    }
}

struct Nobody;

impl Viewers for Nobody {
    fn publish(&self, _envelope: &Arc<Envelope>) {}

    fn stored(&self, _conversation: ConversationId, _up_to: EventId) {}

    fn list_changed(&self, _person: PersonId, _list: List) {}
}
