//! Where messages come from: pipes, the command line, the prompt.

use super::*;
use crate::peer::{CONVERSATION_PATH, MESSAGE};

#[tokio::test]
async fn each_line_of_a_pipe_is_a_message() {
    let failed = vec![send(6, 1, ended(TurnState::Failed, ""))];
    let last = vec![send(7, 1, complete("Bye."))];
    let mut stage = Stage::open(streams(vec![with_tool(), failed, last]), Kind::Plain).await;
    stage.keyboard.write_all(b"time?\n\nbroken\n/etc/hosts").unwrap();
    let Stage { peer, mut session, out, keyboard, .. } = stage;
    drop(keyboard);
    assert_eq!(lines(&mut session).await.unwrap(), Outcome::Failed);
    assert_eq!(out.text(), "It is noon.\nBye.\n");
    let posted = peer.heard("POST", "/messages");
    let texts: Vec<&str> = posted.iter().map(|h| h.body["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["time?", "broken", "/etc/hosts"]);
    assert!(posted.iter().all(|h| h.body["meeting"] == "queue"));
}

#[tokio::test]
async fn the_whole_input_can_be_one_message() {
    for (before, input, expected) in [
        ("", "one\ntwo\n", "one\ntwo"),
        ("explain", "one\ntwo\n", "explain\n\none\ntwo"),
        ("explain", "", "explain"),
    ] {
        let mut stage = Stage::open(script(with_tool()), Kind::Plain).await;
        stage.keyboard.write_all(input.as_bytes()).unwrap();
        let Stage { peer, mut session, keyboard, .. } = stage;
        drop(keyboard);
        whole(&mut session, before).await.unwrap();
        assert_eq!(peer.heard("POST", "/messages")[0].body["text"], expected);
    }
}

#[tokio::test]
async fn no_message_is_an_error() {
    let stage = Stage::open(script(vec![]), Kind::Plain).await;
    let Stage { mut session, keyboard, .. } = stage;
    drop(keyboard);
    assert!(matches!(lines(&mut session).await, Err(Error::NoMessage)));
    assert!(matches!(whole(&mut session, " ").await, Err(Error::NoMessage)));
}

#[tokio::test]
async fn steering_joins_and_does_not_wait() {
    let mut stage = Stage::open(script(vec![Step::Hang]), SCREEN).await;
    stage.peer.script().answers.push((
        "/messages",
        202,
        json!({"conversation_id": CONVERSATION, "turn_id": TURN, "disposition": "steered",
               "notice": "your message joined the turn"}),
    ));
    assert_eq!(steer(&mut stage.session, "shorter").await.unwrap(), Outcome::Complete);
    assert!(stage.err.text().contains("your message joined the turn"));
    let body = json!({"text": "shorter", "meeting": "steer"});
    assert_eq!(stage.peer.heard("POST", "/messages")[0].body, body);
}

#[tokio::test]
async fn what_joined_a_turn_that_failed_is_followed_to_its_answer() {
    let next: TurnId = "01890000-0000-7000-8000-0000000000ff".parse().unwrap();
    let failing = vec![accepted(), send(5, 1, ended(TurnState::Failed, ""))];
    let message = Some(MESSAGE);
    let answer = Event::Complete {
        turn: next,
        state: TurnState::Complete,
        message,
        text: "It is noon.".to_owned(),
    };
    let answering = vec![send(6, 1, answer)];
    let mut stage = Stage::open(streams(vec![failing, answering]), Kind::Plain).await;
    stage.peer.script().answers.push((
        "/messages",
        202,
        json!({"conversation_id": CONVERSATION, "turn_id": TURN, "disposition": "steered"}),
    ));
    stage.peer.script().turn =
        json!({"id": TURN, "state": "failed", "error": "it broke", "successor_id": next});
    assert_eq!(stage.say("time?").await.unwrap(), Outcome::Complete);
    assert_eq!(stage.out.text(), "It is noon.\n");
    assert!(stage.err.text().contains("what you wrote to it gets a turn of its own"));
}

#[tokio::test]
async fn who_comes_after_another_turn_is_told() {
    let other = "01890000-0000-7000-8000-0000000000ff";
    let (waits, works) = ("`famulus approvals` shows", "`famulus chat --steer TEXT` speaks to it");
    for (live, state, told) in [
        (json!(other), "waiting", Some(waits)),
        (json!(other), "running", Some(works)),
        (json!(TURN), "running", None),
        (json!(null), "idle", None),
    ] {
        let mut stage = Stage::open(script(with_tool()), SCREEN).await;
        let found = json!({"id": CONVERSATION, "live_turn": live, "state": state});
        stage.peer.script().answers.push((CONVERSATION_PATH, 200, found));
        assert_eq!(queue(&mut stage.session, "time?").await.unwrap(), Outcome::Complete);
        let said = stage.err.text();
        assert_eq!(said.contains("after another turn"), told.is_some(), "{state}: {said}");
        assert!(told.is_none_or(|told| said.contains(told)), "{state}: {said}");
    }
}

struct Typist(Vec<&'static str>);

impl Prompt for Typist {
    async fn read(&mut self) -> Result<Option<String>, Error> {
        Ok((!self.0.is_empty()).then(|| self.0.remove(0).to_owned()))
    }
}

#[tokio::test]
async fn a_conversation_at_the_prompt() {
    let mut stage = Stage::open(script(with_tool()), SCREEN).await;
    let mut typist = Typist(vec![
        "/help",
        "",
        "time?",
        "/title Noon",
        "/conversations",
        "/switch 1",
        "/switch 9",
        "/switch nowhere",
        "/history 3",
        "/memory",
        "/usage",
        "/schedules",
        "/approvals",
        "/approve NOPE",
        "/stop",
        "/status",
        "/reasoning",
        "/frob",
        "/quit",
        "never sent",
    ]);
    assert_eq!(converse(&mut stage.session, &mut typist).await.unwrap(), Outcome::Complete);
    let (out, err) = (shown(&stage.out).join("\n"), shown(&stage.err).join("\n"));
    for expected in [
        "/approve CODE",
        "It is noon.",
        "Plants",
        "hello",
        "likes tea␛[2J",
        "no schedules",
        "nothing waits for approval",
        "all good",
        "tokens read",
    ] {
        assert!(
            out.replace('\n', "").contains(&expected.replace('\n', "")),
            "{expected} in\n{out}"
        );
    }
    for expected in [
        "no conversation `9`",
        "no conversation `nowhere`",
        "no approval `NOPE`",
        "stopped",
        "reasoning is shown",
        "there is no /frob",
    ] {
        assert!(err.replace('\n', "").contains(expected), "{expected} in\n{err}");
    }
    assert_eq!(stage.peer.heard("PATCH", &CONVERSATION.to_string())[0].body["title"], "Noon");
    assert_eq!(stage.peer.heard("POST", "/messages").len(), 1);
}

#[tokio::test]
async fn a_turn_that_is_running_is_joined_by_the_prompt() {
    let steps =
        vec![send(5, 1, delta("Half")), send(5, 2, delta(" way")), send(5, 3, complete(""))];
    let mut stage = Stage::open(script(steps), SCREEN).await;
    let running = json!({"id": CONVERSATION, "live_turn": TURN});
    stage.peer.script().answers.push(("/main", 200, running));
    converse(&mut stage.session, &mut Typist(vec![])).await.unwrap();
    assert_eq!(shown(&stage.out), ["Half way"]);
}

#[tokio::test]
async fn continuing_finds_the_last_turn() {
    let mut steps = with_tool();
    steps[0] = Step::After("POST", "/continue");
    let mut stage = Stage::open(script(steps), SCREEN).await;
    converse(&mut stage.session, &mut Typist(vec!["/continue"])).await.unwrap();
    assert_eq!(shown(&stage.out).last().map(String::as_str), Some("It is noon."));
    assert_eq!(stage.peer.heard("POST", &format!("/turns/{TURN}/continue")).len(), 1);
}

#[test]
fn the_way_follows_from_arguments_and_terminals() {
    use clap::Parser;
    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ChatArgs,
    }
    let check = |given: &[&str], at_terminal: bool, expected: InputMode| {
        let parsed = Cli::try_parse_from([&["chat"], given].concat()).unwrap();
        assert_eq!(way(&parsed.args, at_terminal), expected, "{given:?}");
    };
    check(&[], true, InputMode::Prompt);
    check(&[], false, InputMode::Lines);
    check(&["what", "time"], true, InputMode::Once("what time".into()));
    check(&["--whole"], false, InputMode::Whole(String::new()));
    check(&["--whole", "explain"], false, InputMode::Whole("explain".into()));
    check(&["--steer", "shorter"], true, InputMode::Steer("shorter".into()));
    assert!(Cli::try_parse_from(["chat", "--steer", "a", "b"]).is_err());
    assert!(Cli::try_parse_from(["chat", "--new", "--conversation", "x"]).is_err());
}

#[tokio::test]
async fn a_key_is_set_at_the_prompt_as_it_was_typed() {
    let mut stage = Stage::open(script(vec![Step::Hang]), SCREEN).await;
    let notice = "`api_key` of `weather` is set.";
    let obeyed = json!({"conversation_id": CONVERSATION, "turn_id": null,
        "disposition": "command", "notice": notice});
    stage.peer.script().answers.push(("/messages", 202, obeyed));
    let mut typist = Typist(vec!["/Configure weather api_key  a  value ", "/quit"]);
    assert_eq!(converse(&mut stage.session, &mut typist).await.unwrap(), Outcome::Complete);
    let sent = &stage.peer.heard("POST", "/messages")[0].body;
    assert_eq!(sent["text"], "/configure weather api_key  a  value");
    assert!(stage.out.text().contains(notice), "{}", stage.out.text());
}
