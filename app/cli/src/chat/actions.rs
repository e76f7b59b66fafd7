//! What the commands of the prompt do.

use famulus_core::ids::{ConversationId, TurnId};
use famulus_core::knowledge::KnowledgeKind;
use famulus_core::model::Usage;
use reqwest::Method;
use serde_json::{Value, json};

use crate::chat::follow::{Outcome, read_turn, stop};
use crate::chat::session::{MAIN, Outgoing, Session, find};
use crate::chat::slash::{self, Slash};
use crate::error::Error;
use crate::schedules::{moment, zone};
use crate::table::{shorten, table};
use crate::wire::{Conversation, Conversations, KnowledgeEntry, KnowledgeList, Verdict};
use crate::{approvals, history, schedules, status};

/// Columns that a title takes in the list.
const TITLE: usize = 50;

/// What the prompt does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Stay,
    Leave,
    Interrupted,
}

pub(crate) async fn act(session: &mut Session, command: Slash) -> Result<Flow, Error> {
    let Session { client, output, .. } = session;
    match command {
        Slash::Help => output.print(&slash::help())?,
        Slash::New { title } => {
            let begun = session.begin(title.as_deref()).await?;
            session.enter(begun.id.to_string());
            session.output.note("· a new conversation; `/switch main` goes back");
        }
        Slash::Conversations => conversations(session).await?,
        Slash::Switch { to } => switch(session, &to).await?,
        Slash::History { count } => {
            let zone = zone(&session.me.person.time_zone);
            history::show(client, output, &session.conversation, count, &zone).await?;
        }
        Slash::Title { title } => {
            let path = ["v1", "conversations", session.conversation.as_str()];
            let body = json!({ "title": title });
            let _named: Value = client.send(Method::PATCH, &path, &body, "a conversation").await?;
            output.note("· named");
        }
        Slash::Stop => {
            let stopped = stop(client, &session.conversation).await?;
            let said = if stopped.stopped.is_empty() { "nothing was running" } else { "stopped" };
            output.note(&format!("· {said}"));
        }
        Slash::Approve { code } => {
            approvals::answer(client, output, &code, Verdict::Approve).await?;
        }
        Slash::Deny { code } => approvals::answer(client, output, &code, Verdict::Deny).await?,
        Slash::Approvals => approvals::list(client, output).await?,
        Slash::Schedules => schedules::list(client, output).await?,
        Slash::Memory => memory(session).await?,
        Slash::Usage => usage(session).await?,
        Slash::Continue => return go_on(session).await,
        Slash::Reasoning => {
            session.reasoning = !session.reasoning;
            let said = if session.reasoning { "shown" } else { "hidden" };
            session.output.note(&format!("· reasoning is {said} from now on"));
        }
        Slash::Status => status::show(client, output).await?,
        Slash::Configure(typed) => return Ok(flow(super::say(session, typed.expose()).await?)),
        Slash::Quit => return Ok(Flow::Leave),
    }
    Ok(Flow::Stay)
}

async fn conversations(session: &mut Session) -> Result<(), Error> {
    let list: Conversations = session
        .client
        .get(&["v1", "conversations"], &[("limit", "50")], "a list of conversations")
        .await?;
    session.listed = list.conversations.iter().map(|found| found.id).collect();
    let zone = zone(&session.me.person.time_zone);
    let row = |(index, found): (usize, &Conversation)| {
        let here = found.id.to_string() == session.conversation;
        let state = match (here, found.live_turn.is_some()) {
            (true, true) => "here, running",
            (true, false) => "here",
            (false, true) => "running",
            (false, false) => "",
        };
        vec![
            (index + 1).to_string(),
            found.updated_at.map_or_else(String::new, |at| moment(at, &zone)),
            state.to_owned(),
            shorten(found.title.as_deref().unwrap_or("(no title)"), TITLE),
            found.id.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = list.conversations.iter().enumerate().map(row).collect();
    session.output.print(&table(&["n", "last used", "", "title", "id"], &rows))
}

async fn switch(session: &mut Session, to: &str) -> Result<(), Error> {
    let listed = to.parse::<usize>().ok().map(|number| {
        let found = number.checked_sub(1).and_then(|index| session.listed.get(index));
        found.map(ConversationId::to_string)
    });
    let id = match listed {
        Some(Some(id)) => id,
        Some(None) => return Err(Error::NoConversation { given: to.to_owned() }),
        None => to.to_owned(),
    };
    let found = match find(&session.client, &id).await {
        // The main conversation is opened by its first message.
        Err(Error::NoConversation { .. }) if id == MAIN => {
            session.enter(id);
            return Ok(());
        }
        found => found?,
    };
    session.enter(found.id.to_string());
    let title = found.title.unwrap_or_else(|| "a conversation without a title".to_owned());
    session.output.note(&format!("· in {title}"));
    Ok(())
}

async fn memory(session: &mut Session) -> Result<(), Error> {
    let list: KnowledgeList =
        session.client.get(&["v1", "knowledge"], &[], "a list of knowledge").await?;
    let line = |entry: &KnowledgeEntry| match entry.kind {
        KnowledgeKind::Memory => entry.body.trim().to_owned(),
        KnowledgeKind::Scratchpad => format!("{} (page {})", entry.title, entry.id),
    };
    let lines: Vec<String> = list.knowledge.iter().map(line).collect();
    if lines.is_empty() {
        return session.output.print("nothing is remembered yet");
    }
    session.output.print(&lines.join("\n"))
}

async fn usage(session: &mut Session) -> Result<(), Error> {
    let spent = session.spent;
    if let Some(turn) = session.last_turn {
        let turn = read_turn(session, turn).await?;
        let model = turn.model.as_deref().unwrap_or("unknown model");
        let used = tokens(turn.usage.unwrap_or_default());
        session.output.print(&format!("last turn: {used} in {} steps, {model}", turn.steps))?;
    }
    session.output.print(&format!("since this prompt began: {}", tokens(spent)))
}

fn tokens(usage: Usage) -> String {
    let count = |tokens: Option<u64>| {
        tokens.map_or_else(|| "an unknown number of".to_owned(), |tokens| tokens.to_string())
    };
    format!("{} tokens read, {} written", count(usage.input_tokens), count(usage.output_tokens))
}

async fn go_on(session: &mut Session) -> Result<Flow, Error> {
    let turn = match session.last_turn {
        Some(turn) => Some(turn),
        None => latest_turn(session).await?,
    };
    let Some(turn) = turn else {
        session.output.alert("there is no turn to go on with");
        return Ok(Flow::Stay);
    };
    let outcome = match session.send(Outgoing::Continue(turn)).await? {
        Some(sent) => super::see(session, sent).await?,
        None => super::unsure(session),
    };
    Ok(flow(outcome))
}

/// What the prompt does after something was sent.
pub(super) fn flow(outcome: Outcome) -> Flow {
    match outcome {
        Outcome::Left => Flow::Interrupted,
        Outcome::Complete | Outcome::Failed | Outcome::Cancelled => Flow::Stay,
    }
}

async fn latest_turn(session: &Session) -> Result<Option<TurnId>, Error> {
    let page = history::latest(&session.client, &session.conversation).await?;
    Ok(page.messages.iter().rev().find_map(|message| message.turn_id))
}
