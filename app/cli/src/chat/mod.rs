//! `famulus chat`: a prompt in a terminal, a filter in a pipe, one message from the command line.

mod actions;
mod follow;
mod past;
mod prompt;
mod question;
pub(crate) mod session;
mod show;
mod slash;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use famulus_core::event::EventId;
use famulus_core::ids::TurnId;
use famulus_core::model::Usage;

use crate::chat::actions::Flow;
use crate::chat::follow::{Outcome, follow, read_turn};
use crate::chat::prompt::{Prompt, Terminal};
use crate::chat::session::{MAIN, Outgoing, SentMessage, Session, find};
use crate::chat::slash::Typed;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::Error;
use crate::input::Lines;
use crate::interrupts::Interrupts;
use crate::output::Output;
use crate::timeouts::Timeouts;
use crate::wire::{Activity, Disposition, Me, Meeting};

/// What a shell reports for a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[derive(Clone, Debug, clap::Args)]
pub struct ChatArgs {
    /// A message; without one, a prompt in a terminal, or a message for each line of a pipe
    text: Vec<String>,
    /// Id of the conversation
    #[arg(long, value_name = "ID", default_value = MAIN)]
    conversation: String,
    /// Begin another conversation
    #[arg(long, conflicts_with = "conversation")]
    new: bool,
    /// Take all of the input as one message, behind TEXT if there is one
    #[arg(long)]
    whole: bool,
    /// Say something to the turn that is running, and do not wait for its reply
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["text", "whole", "new"])]
    steer: Option<String>,
    /// Show the model's reasoning
    #[arg(long)]
    reasoning: bool,
}

/// Where the messages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum InputMode {
    Steer(String),
    Once(String),
    /// All of the input, behind this text.
    Whole(String),
    Lines,
    Prompt,
}

pub(crate) async fn run(
    args: ChatArgs,
    connection: &Connection,
    output: Output,
) -> Result<ExitCode, Error> {
    let client = Client::new(connection)?;
    let me: Me = client.get(&["v1", "me"], &[], "who the token belongs to").await?;
    let at_keyboard = io::stdin().is_terminal();
    let way = way(&args, at_keyboard && output.screen().is_some());
    // The end of the input is the end of asking.
    let asks = at_keyboard && output.progress_is_seen() && !matches!(way, InputMode::Whole(_));
    let interrupts = Interrupts::take_over().map_err(|source| Error::Read { source })?;
    let mut session = Session {
        client,
        me,
        asks,
        output,
        interrupts,
        timeouts: Timeouts::default(),
        input: Lines::stdin()?,
        reasoning: args.reasoning,
        conversation: MAIN.to_owned(),
        position: EventId::START,
        last_turn: None,
        spent: Usage::default(),
        listed: Vec::new(),
    };
    if args.new {
        let begun = session.begin(None).await?;
        session.enter(begun.id.to_string());
    } else if args.conversation != MAIN {
        let found = find(&session.client, &args.conversation).await?;
        session.enter(found.id.to_string());
    }
    let outcome = match way {
        InputMode::Steer(text) => steer(&mut session, &text).await?,
        InputMode::Once(text) => queue(&mut session, &text).await?,
        InputMode::Whole(before) => whole(&mut session, &before).await?,
        InputMode::Lines => lines(&mut session).await?,
        InputMode::Prompt => {
            let history = connection.data_dir.join("chat_history");
            let (mut terminal, problem) = Terminal::open(&history, session.output.colour());
            if let Some(problem) = problem {
                session.output.note(&format!(
                    "the history lasts only until the end: {} cannot be kept: {problem}",
                    history.display()
                ));
            }
            converse(&mut session, &mut terminal).await?
        }
    };
    Ok(match outcome {
        Outcome::Complete => ExitCode::SUCCESS,
        Outcome::Failed | Outcome::Cancelled => ExitCode::FAILURE,
        Outcome::Left => ExitCode::from(INTERRUPTED),
    })
}

fn way(args: &ChatArgs, at_terminal: bool) -> InputMode {
    let text = args.text.join(" ");
    match &args.steer {
        Some(steer) => InputMode::Steer(steer.clone()),
        None if args.whole => InputMode::Whole(text),
        None if !text.trim().is_empty() => InputMode::Once(text),
        None if at_terminal => InputMode::Prompt,
        None => InputMode::Lines,
    }
}

/// The prompt: lines in, turns out, until its writer leaves.
async fn converse(session: &mut Session, prompt: &mut impl Prompt) -> Result<Outcome, Error> {
    let model = session.me.model.clone().unwrap_or_else(|| "no model".to_owned());
    session.output.note(&format!(
        "Famulus {} · {} · {model} · /help lists the commands, Ctrl-D leaves",
        session.me.version, session.me.person.name
    ));
    if let Some(Outcome::Left) = attach(session).await? {
        return Ok(Outcome::Left);
    }
    while let Some(line) = prompt.read().await? {
        let done = match slash::read(&line) {
            Typed::Nothing => continue,
            Typed::Mistake(why) => {
                session.output.alert(&why);
                continue;
            }
            Typed::Message(text) => say(session, &text).await.map(actions::flow),
            Typed::Command(command) => actions::act(session, command).await,
        };
        match done {
            Ok(Flow::Stay) => {}
            Ok(Flow::Leave) => break,
            Ok(Flow::Interrupted) => return Ok(Outcome::Left),
            Err(error @ Error::Write { .. }) => return Err(error),
            Err(error) => session.output.complain(&error),
        }
    }
    Ok(Outcome::Complete)
}

/// Follows a turn that was running before this terminal came.
async fn attach(session: &mut Session) -> Result<Option<Outcome>, Error> {
    let found = match session.find(&session.conversation).await {
        Ok(found) => found,
        // The main conversation is opened by its first message.
        Err(Error::NoConversation { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(turn) = found.live_turn else { return Ok(None) };
    session.output.note("· a turn is running; Ctrl-C stops it");
    let feed = session.feed();
    match follow(session, feed, turn).await {
        Ok(outcome) => Ok(Some(outcome)),
        Err(error @ Error::Write { .. }) => Err(error),
        Err(error) => {
            session.output.complain(&error);
            Ok(None)
        }
    }
}

/// Each line is a message. Goes on after a turn that failed, and says so at the end.
async fn lines(session: &mut Session) -> Result<Outcome, Error> {
    let mut worst = None;
    loop {
        let line = tokio::select! {
            line = session.input.next() => line?,
            () = session.interrupts.next() => return Ok(Outcome::Left),
        };
        let Some(line) = line else { break };
        if line.trim().is_empty() {
            continue;
        }
        match queue(session, &line).await? {
            Outcome::Left => return Ok(Outcome::Left),
            Outcome::Complete => worst = worst.or(Some(Outcome::Complete)),
            bad @ (Outcome::Failed | Outcome::Cancelled) => worst = Some(bad),
        }
    }
    worst.ok_or(Error::NoMessage)
}

async fn whole(session: &mut Session, before: &str) -> Result<Outcome, Error> {
    let input = tokio::select! {
        input = session.input.whole() => input?,
        () = session.interrupts.next() => return Ok(Outcome::Left),
    };
    let text = match (before.trim(), input.trim_end()) {
        ("", "") => return Err(Error::NoMessage),
        ("", input) => input.to_owned(),
        (before, "") => before.to_owned(),
        (before, input) => format!("{before}\n\n{input}"),
    };
    queue(session, &text).await
}

/// Joins the running turn. Where none is running the message begins one, which is shown.
async fn steer(session: &mut Session, text: &str) -> Result<Outcome, Error> {
    let outgoing = Outgoing::Message { text, meeting: Some(Meeting::Steer) };
    let Some(sent) = session.send(outgoing).await? else { return Ok(unsure(session)) };
    if sent.accepted.disposition == Disposition::Steered {
        let notice = sent.accepted.notice.as_deref().unwrap_or("joined the running turn");
        session.output.note(&format!("· {notice}"));
        return Ok(Outcome::Complete);
    }
    session.output.note("· no turn was running; the message begins one");
    see(session, sent).await
}

/// What the server does with a message that meets a running turn: it joins it.
async fn say(session: &mut Session, text: &str) -> Result<Outcome, Error> {
    match session.send(Outgoing::Message { text, meeting: None }).await? {
        Some(sent) => see(session, sent).await,
        None => Ok(unsure(session)),
    }
}

/// Begins a turn of its own, behind one that is running.
async fn queue(session: &mut Session, text: &str) -> Result<Outcome, Error> {
    let outgoing = Outgoing::Message { text, meeting: Some(Meeting::Queue) };
    let Some(sent) = session.send(outgoing).await? else { return Ok(unsure(session)) };
    if let Some(turn) = sent.accepted.turn_id {
        tell_what_is_ahead(session, turn).await;
    }
    see(session, sent).await
}

/// Nobody shall wait behind another turn without knowing. A server that does not answer is the
/// stream's affair, which says so.
async fn tell_what_is_ahead(session: &mut Session, turn: TurnId) {
    let client = session.client.clone();
    let found = tokio::select! {
        found = find(&client, &session.conversation) => found,
        // Heard again by whoever follows the turn.
        () = session.interrupts.next() => return session.interrupts.repeat(),
    };
    let Ok(found) = found else { return };
    if found.live_turn.is_none_or(|live| live == turn) {
        return;
    }
    let ahead = match found.state {
        Activity::Waiting => "waits for an answer; `famulus approvals` shows the question",
        Activity::Idle | Activity::Running => {
            "is at work; `famulus chat --steer TEXT` speaks to it"
        }
    };
    session.output.note(&format!("· this comes after another turn, which {ahead}"));
}

/// Shows what comes of something that was sent.
async fn see(session: &mut Session, sent: SentMessage) -> Result<Outcome, Error> {
    let SentMessage { accepted, feed } = sent;
    match (accepted.disposition, accepted.notice, accepted.turn_id) {
        (Disposition::Command, notice, _) => {
            session.output.print(notice.as_deref().unwrap_or("done"))?;
            Ok(Outcome::Complete)
        }
        (
            Disposition::Started | Disposition::Steered | Disposition::Duplicate,
            notice,
            Some(turn),
        ) => {
            if let Some(notice) = notice {
                session.output.note(&format!("· {notice}"));
            }
            let outcome = follow(session, feed, turn).await?;
            match accepted.disposition {
                Disposition::Steered | Disposition::Duplicate if outcome == Outcome::Failed => {
                    go_on(session, turn).await
                }
                Disposition::Started
                | Disposition::Steered
                | Disposition::Duplicate
                | Disposition::Command => Ok(outcome),
            }
        }
        (Disposition::Started | Disposition::Steered | Disposition::Duplicate, notice, None) => {
            session.output.note(notice.as_deref().unwrap_or("accepted"));
            Ok(Outcome::Complete)
        }
    }
}

/// Follows the turn to which a failed one handed what had joined it.
async fn go_on(session: &mut Session, failed: TurnId) -> Result<Outcome, Error> {
    let failed = read_turn(session, failed).await.ok();
    let Some(next) = failed.and_then(|turn| turn.successor_id) else {
        return Ok(Outcome::Failed);
    };
    session.output.note("· what you wrote to it gets a turn of its own");
    let feed = session.feed();
    follow(session, feed, next).await
}

fn unsure(session: &mut Session) -> Outcome {
    session.output.alert(
        "interrupted before the server answered; the history shows whether the message arrived",
    );
    Outcome::Left
}
