//! `famulus chat` at a terminal, as a person has it.

use crate::world::{self, Do, Puppet, Setup, Terminal, Text as _, client, say};
use tokio_util::sync::CancellationToken;

/// Longer than any line of the screen.
fn long_reply() -> String {
    (1..=60).map(|number| format!("word{number} ")).collect::<Vec<_>>().concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_talks_at_a_terminal() {
    let (gate, never) = (CancellationToken::new(), CancellationToken::new());
    let (held, holds) = (gate.clone(), never.clone());
    let model = Puppet::new(move |_, request| {
        let asked = request.last();
        if asked.ends_with("hello") {
            vec![say("Half, "), Do::Hold(held.clone()), say("whole.")]
        } else if asked.ends_with("endless") {
            vec![say("It begins "), Do::Hold(holds.clone()), say("and ends.")]
        } else {
            vec![say(long_reply())]
        }
    });
    let home = tempfile::tempdir().unwrap();
    world::run(Setup::new(model.clone()), async |world| {
        let mut terminal = Terminal::start(&world.owner, home.path(), &["chat"]);
        terminal.sees("/help lists the commands, Ctrl-D leaves").await;
        terminal.prompts("").await;

        // A reply is seen while it comes.
        terminal.types("hello\r");
        let seen = terminal.sees("Half,").await;
        assert!(!seen.contains("whole."), "{seen}");
        gate.cancel();
        terminal.sees("Half, whole.").await;
        terminal.prompts("").await;

        // Ctrl-C during a turn stops the turn and nothing else.
        terminal.types("endless\r");
        terminal.sees("It begins").await;
        terminal.types("\x03");
        terminal.sees("stopping; Ctrl-C again leaves").await;
        let seen = terminal.sees("· stopped").await;
        assert!(!seen.contains("and ends."), "{seen}");
        model.dropped(1).await;
        let turn = world.owner.messages("main").await.pop().unwrap();
        let turn = client::id_of(&turn, "turn_id");
        assert_eq!(world.owner.turn(&turn).await["state"], "cancelled");
        terminal.prompts("").await;

        // What was typed before comes back, the latest first.
        terminal.types("\x1b[A");
        terminal.prompts("endless").await;
        terminal.types("\x1b[A");
        terminal.prompts("hello").await;
        terminal.types("\r");
        let twice = |seen: &str| seen.matches("Half, whole.").count() == 2;
        terminal.until("the reply to come again", twice).await;
        terminal.prompts("").await;

        // A window that changes its size, at the prompt and behind a half typed line.
        terminal.resize(100, 50);
        terminal.types("wide");
        terminal.prompts("wide").await;
        terminal.resize(50, 30);
        terminal.types(" and narrow\r");
        let whole = |seen: &str| joined(seen).contains(&joined(&long_reply()));
        terminal.until("the whole reply", whole).await;
        terminal.prompts("").await;

        terminal.types("\x04");
        let status = terminal.ends().await;
        assert!(status.success(), "{status}");
        assert_eq!(model.times(), 4);

        // And while a reply comes. The history is still there.
        let mut terminal = Terminal::start(&world.owner, home.path(), &["chat"]);
        terminal.prompts("").await;
        terminal.types("\x1b[A");
        terminal.prompts("wide and narrow").await;
        terminal.types("\x01\x0bendless\r");
        terminal.sees("It begins").await;
        terminal.resize(60, 20);
        never.cancel();
        terminal.sees("It begins and ends.").await;
        terminal.prompts("").await;

        // Twice, it leaves at once, and says so by what it returns.
        terminal.types("\x03");
        let status = terminal.ends().await;
        assert!(status.success(), "{status}");
    })
    .await;
}

/// Without what stands between words, lines and their breaks included.
fn joined(text: &str) -> String {
    text.split_whitespace().collect()
}
