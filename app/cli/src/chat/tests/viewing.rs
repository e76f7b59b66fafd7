//! What streams do, bad days included, and what the reader sees of it.

use super::*;

#[tokio::test]
async fn a_pipe_gets_the_reply_and_nothing_else() {
    let mut stage = Stage::open(script(with_tool()), Kind::Plain).await;
    assert_eq!(stage.say("time?").await.unwrap(), Outcome::Complete);
    assert_eq!(stage.out.text(), "It is noon.\n");
    assert_eq!(stage.err.text(), "· get_time …\n· get_time done, 0.0 s\n");
    let posted = &stage.peer.heard("POST", "/messages")[0];
    assert_eq!(posted.path, "/v1/conversations/main/messages");
    assert_eq!(posted.body, json!({"text": "time?"}));
    assert!(posted.key.is_some());
}

#[tokio::test]
async fn a_terminal_sees_the_reply_grow() {
    let mut stage = Stage::open(script(with_tool()), SCREEN).await;
    assert_eq!(stage.say("time?").await.unwrap(), Outcome::Complete);
    assert_eq!(shown(&stage.out), ["Let me look.", "· get_time done, 0.0 s", "It is noon."]);
    assert_eq!(stage.err.text(), "");
}

#[tokio::test]
async fn reasoning_is_shown_when_it_is_wanted() {
    let mut stage = Stage::open(script(with_tool()), SCREEN).await;
    stage.session.reasoning = true;
    stage.say("time?").await.unwrap();
    assert_eq!(shown(&stage.out)[0], "hm");
}

#[tokio::test]
async fn a_cut_stream_goes_on_where_it_was() {
    let cut = vec![
        accepted(),
        send(5, 1, delta("One ")),
        send(5, 2, delta("two ")),
        Step::Raw("id: 5-3\neve"),
    ];
    let rest =
        vec![send(5, 2, delta("two ")), send(5, 3, delta("three")), send(5, 4, complete(""))];
    for kind in [SCREEN, Kind::Plain] {
        let mut stage = Stage::open(streams(vec![cut.clone(), rest.clone()]), kind).await;
        assert_eq!(stage.say("count").await.unwrap(), Outcome::Complete);
        assert_eq!(shown(&stage.out), ["One two three"]);
        let opened: Vec<Option<String>> =
            stage.peer.heard("GET", "/events").into_iter().map(|h| h.last_event_id).collect();
        assert_eq!(opened, [None, Some("5-2".to_owned())]);
    }
}

#[tokio::test]
async fn what_was_never_stored_disappears_when_a_worker_takes_over() {
    let resumed = Event::Resumed { turn: TURN, last: EventId { fence: 5, number: 2 } };
    let steps = vec![
        accepted(),
        send(5, 1, delta("Once upon a time there was ")),
        send(5, 2, delta("a\nking, ")),
        send(5, 3, delta("who lived in a castle that was so long that it wrapped.\nAnd ")),
        send(5, 4, tool("get_time")),
        // Asked after when it is quiet: all of it is on the screen.
        Step::After("GET", TURN_PATH),
        send(6, 1, resumed),
        send(6, 2, delta("and a queen.")),
        send(6, 3, complete("and a queen.")),
    ];
    for (kind, expected) in [
        (
            SCREEN,
            vec![
                "Once upon a time there was a",
                "king,",
                "· interrupted; it goes on",
                "and a queen.",
            ],
        ),
        (Kind::Plain, vec!["Once upon a time there was a", "king, and a queen."]),
    ] {
        let mut stage = Stage::open(script(steps.clone()), kind).await;
        assert_eq!(stage.say("tell").await.unwrap(), Outcome::Complete);
        assert_eq!(shown(&stage.out), expected);
    }
}

#[tokio::test]
async fn a_reset_fetches_the_turn_anew() {
    let forgotten = vec![
        accepted(),
        send(5, 1, delta("stale")),
        Step::Raw("event: reset\ndata: {}\n\n"),
        Step::Hang,
    ];
    let anew = vec![send(5, 40, delta("fresh")), send(5, 41, complete("fresh"))];
    let mut stage = Stage::open(streams(vec![forgotten, anew]), SCREEN).await;
    assert_eq!(stage.say("hi").await.unwrap(), Outcome::Complete);
    assert_eq!(shown(&stage.out), ["fresh"]);
    assert_eq!(stage.peer.heard("GET", "/events")[1].last_event_id, None);
}

#[tokio::test]
async fn nonsense_on_the_stream_is_not_shown() {
    let nonsense = vec![
        accepted(),
        send(5, 1, delta("Hel")),
        Step::Raw(
            "data: {\"v\":1,\"id\":{\"fence\":5,\"number\":2},\"event\":{\"type\":\"hologram\"}}\n\n",
        ),
        Step::Raw("event: delta\ndata: {nonsense\n\n"),
        Step::Hang,
    ];
    let rest = vec![send(5, 3, delta("lo")), send(5, 4, complete(""))];
    let mut stage = Stage::open(streams(vec![nonsense, rest]), Kind::Plain).await;
    assert_eq!(stage.say("hi").await.unwrap(), Outcome::Complete);
    assert_eq!(stage.out.text(), "Hello\n");
    // The unknown kind was passed over and not asked for again.
    assert_eq!(stage.peer.heard("GET", "/events")[1].last_event_id.as_deref(), Some("5-2"));
    assert_eq!(stage.err.text(), "· connection lost; trying again\n· connected again\n");
}

#[tokio::test]
async fn a_stream_of_nothing_but_nonsense_is_given_up() {
    let nonsense = || vec![Step::Raw("data: 7\n\n"), Step::Hang];
    let mut stage = Stage::open(streams((0..4).map(|_| nonsense()).collect()), Kind::Plain).await;
    let error = stage.say("hi").await.unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
}

#[tokio::test]
async fn a_silent_stream_is_replaced_and_a_silent_turn_asked_after() {
    // Nothing ever comes over the stream, but the turn has ended.
    let mut stage = Stage::open(script(vec![Step::Hang]), SCREEN).await;
    stage.peer.script().turn = json!({"id": TURN, "state": "complete", "text": "It is noon."});
    assert_eq!(stage.say("time?").await.unwrap(), Outcome::Complete);
    assert_eq!(shown(&stage.out), ["It is noon."]);

    // The stream is dead without being closed: another one is opened.
    let rest = vec![send(5, 1, complete("late"))];
    let mut stage = Stage::open(streams(vec![vec![accepted(), Step::Hang], rest]), SCREEN).await;
    stage.session.timeouts.silence = Duration::from_millis(50);
    assert_eq!(stage.say("time?").await.unwrap(), Outcome::Complete);
    assert_eq!(shown(&stage.out), ["late"]);
}

#[tokio::test]
async fn a_failed_turn_says_why() {
    let steps =
        vec![accepted(), send(5, 1, delta("Half")), send(5, 2, ended(TurnState::Failed, ""))];
    let mut stage = Stage::open(script(steps), Kind::Plain).await;
    stage.peer.script().turn =
        json!({"id": TURN, "state": "failed", "error": "the model\u{1b}[2J is silent"});
    assert_eq!(stage.say("hi").await.unwrap(), Outcome::Failed);
    assert_eq!(stage.out.text(), "Half\n");
    assert_eq!(stage.err.text(), "the turn failed: the model␛[2J is silent\n");
}

#[tokio::test]
async fn what_the_model_writes_cannot_command_the_terminal() {
    let evil = "\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}2J\rok\u{202e}";
    let steps = || {
        vec![
            accepted(),
            send(5, 1, tool("x\u{1b}[2J")),
            send(5, 2, delta(evil)),
            send(5, 3, complete(evil)),
        ]
    };
    let mut stage = Stage::open(script(steps()), SCREEN).await;
    stage.say("hi").await.unwrap();
    // The screen of the test fails on any code but ours.
    assert_eq!(shown(&stage.out), ["· x␛[2J …", "␛]52;c;ZXZpbA==␇⟨U+009B⟩2Jok⟨U+202E⟩"]);
    // A pipe gets the text as it is.
    let mut stage = Stage::open(script(steps()), Kind::Plain).await;
    stage.say("hi").await.unwrap();
    assert_eq!(stage.out.text(), format!("{evil}\n"));
    assert_eq!(stage.err.text(), "· x␛[2J …\n");
}

#[tokio::test]
async fn a_message_that_is_sent_again_keeps_its_key() {
    let mut stage = Stage::open(script(with_tool()), Kind::Plain).await;
    stage.peer.script().answers.push(("/messages", 503, json!({"title": "busy"})));
    // The first stream waits for the message, which is heard twice.
    assert_eq!(stage.say("time?").await.unwrap(), Outcome::Complete);
    let posted = stage.peer.heard("POST", "/messages");
    assert_eq!(posted.len(), 2);
    assert!(posted[0].key.is_some() && posted[0].key == posted[1].key);
}

#[tokio::test]
async fn a_refusal_is_shown_with_its_remedy() {
    let mut stage = Stage::open(script(vec![Step::Hang]), Kind::Plain).await;
    let body = json!({"title": "too large", "detail": "30 MiB", "remedy": "send less"});
    stage.peer.script().answers.push(("/messages", 413, body));
    let error = stage.say("hi").await.unwrap_err();
    assert_eq!(error.to_string(), "too large: 30 MiB; send less");
}

#[tokio::test]
async fn the_first_message_opens_the_main_conversation() {
    let mut first = script(Vec::new());
    first.streams = [Err(404), Ok(with_tool())].into();
    let mut stage = Stage::open(first, Kind::Plain).await;
    assert_eq!(stage.say("time?").await.unwrap(), Outcome::Complete);
    assert_eq!(stage.out.text(), "It is noon.\n");
    let opened = stage.peer.heard("GET", "/events");
    assert!(
        opened[0].path.contains("/main/") && opened[1].path.contains(&CONVERSATION.to_string())
    );
}

#[tokio::test]
async fn a_second_turn_goes_on_from_the_first() {
    let again = vec![send(5, 8, delta("Yes.")), send(5, 9, ended(TurnState::Complete, "Yes."))];
    let mut stage = Stage::open(streams(vec![with_tool(), again]), Kind::Plain).await;
    stage.say("time?").await.unwrap();
    stage.say("sure?").await.unwrap();
    assert_eq!(stage.out.text(), "It is noon.\nYes.\n");
    assert_eq!(stage.peer.heard("GET", "/events")[1].last_event_id.as_deref(), Some("5-7"));
}

#[tokio::test]
async fn a_wrong_token_is_told_apart_from_a_missing_server() {
    let peer = Peer::start(script(vec![])).await;
    let client = Client::new(&peer.connection("fam_wrong")).unwrap();
    let error = client.get::<Me>(&["v1", "me"], &[], "me").await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("does not accept the token from FAMULUS_TOKEN"), "{text}");
    assert!(text.contains("famulus token") && !text.contains("fam_wrong"));

    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut connection = peer.connection(TOKEN);
    connection.url = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let client = Client::new(&connection).unwrap();
    let error = client.get::<Me>(&["v1", "me"], &[], "me").await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }));
    let text = error.to_string();
    assert!(text.contains("famulus up") && text.contains(&connection.url), "{text}");
}
