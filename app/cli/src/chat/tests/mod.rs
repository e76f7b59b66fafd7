//! Turns against a scripted server: what reaches the screen, the pipe and the server.

mod owner;
mod viewing;
mod ways;

use std::io::Write as _;
use std::time::Duration;

use famulus_core::approval::{Approval, ApprovalState, Asked};
use famulus_core::event::{Event, EventId, Status};
use famulus_core::ids::{ApprovalId, PersonId};
use famulus_core::turn::TurnState;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::output::Kind;
use crate::paint::Size;
use crate::peer::{
    CONVERSATION, Paper, Peer, Script, Step, TOKEN, TURN, TURN_PATH, accepted, delta, ended,
    results, send, thought, tool,
};
use crate::vt::Screen;

const SCREEN: Kind = Kind::Terminal(Size { columns: 40, rows: 20 });

/// A chat whose every stream is in the test's hands.
struct Stage {
    peer: Peer,
    session: Session,
    out: Paper,
    err: Paper,
    keyboard: io::PipeWriter,
    ctrl_c: mpsc::Sender<()>,
}

impl Stage {
    async fn open(script: Script, kind: Kind) -> Self {
        let peer = Peer::start(script).await;
        let (out, err) = (Paper::default(), Paper::default());
        let (reader, keyboard) = io::pipe().unwrap();
        let (ctrl_c, presses) = mpsc::channel(4);
        let client = peer.client();
        let me = client.get(&["v1", "me"], &[], "me").await.unwrap();
        let session = Session {
            client,
            me,
            output: Output::fake(Box::new(out.clone()), kind, Box::new(err.clone()), kind),
            interrupts: Interrupts::scripted(presses),
            timeouts: Timeouts {
                first: Duration::from_millis(1),
                silence: Duration::from_mins(1),
                quiet: Duration::from_millis(100),
                quiet_asking: Duration::from_millis(20),
            },
            input: Lines::from_fd(reader.into()),
            asks: kind != Kind::Plain,
            reasoning: false,
            conversation: MAIN.to_owned(),
            position: EventId::START,
            last_turn: None,
            spent: Usage::default(),
            listed: Vec::new(),
        };
        Self { peer, session, out, err, keyboard, ctrl_c }
    }

    async fn say(&mut self, text: &str) -> Result<Outcome, Error> {
        say(&mut self.session, text).await
    }
}

fn streams(streams: Vec<Vec<Step>>) -> Script {
    let running = json!({"id": TURN, "state": "running", "steps": 1});
    Script { streams: streams.into_iter().map(Ok).collect(), turn: running, ..Script::default() }
}

fn script(steps: Vec<Step>) -> Script {
    streams(vec![steps])
}

fn complete(text: &str) -> Event {
    ended(TurnState::Complete, text)
}

fn with_tool() -> Vec<Step> {
    vec![
        accepted(),
        send(5, 1, thought("hm")),
        send(5, 2, delta("Let me look.\n")),
        send(5, 3, tool("get_time")),
        send(5, 4, results()),
        send(5, 5, delta("It is ")),
        send(5, 6, delta("noon.")),
        send(5, 7, complete("It is noon.")),
    ]
}

/// What a terminal shows after all that was written to it.
fn shown(written: &Paper) -> Vec<String> {
    let Kind::Terminal(size) = SCREEN else { unreachable!() };
    let mut screen = Screen::new(size);
    screen.feed(&written.text());
    screen.shown()
}
