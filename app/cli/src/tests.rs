//! The commands that ask once, against a scripted server.

use clap::Parser;
use famulus_core::clock::{Clock as _, SystemClock};
use famulus_core::ids::PersonId;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::client::Client;
use crate::output::{Kind, Output};
use crate::paint::Size;
use crate::peer::{Paper, Peer, Script, TOKEN};
use crate::{Command, Connection, ConnectionArgs, Error, dispatch};

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: Command,
}

/// Runs a command line and gives what it wrote and how it ended.
pub(crate) async fn run(
    connection: &Connection,
    kind: Kind,
    line: &str,
) -> (String, Result<bool, Error>) {
    let words = std::iter::once("famulus").chain(line.split_whitespace());
    let program = Program::try_parse_from(words).unwrap();
    let out = Paper::default();
    let output = Output::fake(Box::new(out.clone()), kind, Box::new(Paper::default()), kind);
    let ended = Box::pin(dispatch(program.command, connection, output)).await;
    let good = format!("{:?}", std::process::ExitCode::SUCCESS);
    (out.text(), ended.map(|code| format!("{code:?}") == good))
}

#[tokio::test]
async fn each_command_has_a_table_and_json() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    for (line, expected) in [
        ("status", "version"),
        ("queue", "`famulus queue dead` says why"),
        ("queue dead", "no model"),
        ("queue retry 7", "tried again"),
        ("approvals", "nothing waits"),
        ("approvals list", "nothing waits"),
        ("schedules", "no schedules"),
        ("history", "hello"),
        ("history 5 --conversation main", "hello"),
        ("plugin list", "a call starts a runner"),
        ("plugin show dice", "throw_die"),
        ("plugin logs dice", "the runner listens"),
        ("doctor", "everything is well"),
        ("doctor", "about 321 tokens"),
    ] {
        let (out, ended) = run(&connection, Kind::Plain, line).await;
        assert!(ended.unwrap(), "{line}");
        assert!(out.contains(expected), "{line} gave {out}");
        assert!(!out.contains('\u{1b}'), "{line}");
    }
    for (line, key) in [
        ("status --json", "version"),
        ("queue --json", "depth"),
        ("queue dead --json", "jobs"),
        ("approvals --json", "approvals"),
        ("schedules --json", "schedules"),
        ("plugin list --json", "plugins"),
        ("plugin show dice --json", "tools"),
        ("history --json", "messages"),
        ("doctor --json", "checks"),
    ] {
        let (out, ended) = run(&connection, Kind::Plain, line).await;
        assert!(ended.unwrap(), "{line}");
        let json: Value = serde_json::from_str(&out).unwrap();
        assert!(json.get(key).is_some(), "{line} gave {out}");
    }
    assert_eq!(peer.heard("POST", "/queue/dead/7/retry").len(), 1);
}

#[tokio::test]
async fn who_may_speak_is_asked_and_said() {
    let peer = Peer::start(Script::default()).await;
    let connection = peer.connection(TOKEN);
    let until = SystemClock.now() + SignedDuration::from_mins(15);
    let waiting = json!({"pairings": [{"channel": "telegram", "external_id": "7",
        "name": "Ada\u{1b}[2J", "since": until, "until": until}]});
    let known = json!({"person": {"id": PersonId::new(), "name": "Ada", "role": "member",
        "time_zone": "UTC", "language": "en"}, "channel": "telegram", "external_id": "7"});
    let leaving = json!({"messages": [{"id": "m-1", "to": {"channel": "telegram", "account": "99",
        "chat": "7"}, "error": "it broke off", "created_at": until}]});
    let since = SystemClock.now() - SignedDuration::from_mins(2);
    let down = json!({"channels": [{"channel": "telegram", "account": null, "listening": false,
        "down": "the token is unknown", "since": since}]});
    let heard = json!({"channels": [{"channel": "telegram", "account": "99", "listening": true,
        "down": null, "since": since}]});
    let named = json!({"channels": [{"channel": "telegram", "account": "99",
        "name": "@famulus_bot", "listening": true, "down": null, "since": since}]});
    let link = json!({"link": "https://t.me/x?y\u{1b}[2J", "until": until});
    for (line, end, answer, expected) in [
        ("people", "/v1/pairings", waiting, &["telegram", "Ada", "7", "15 min"][..]),
        ("people", "/v1/pairings", json!({"pairings": []}), &["nobody waits"]),
        (
            "people pair ABCD2345 --contact",
            "/v1/pairings",
            known.clone(),
            &["Ada may write on telegram", "7"],
        ),
        ("outbox", "/v1/outbox", leaving, &["m-1", "may have arrived", "it broke off"]),
        ("outbox retry m-1", "/v1/outbox/m-1/retry", json!({"retried": true}), &["sent again"]),
        ("channel", "/v1/channels", down, &["not known yet", "down for 2 min", "the token"]),
        ("channel status", "/v1/channels", heard, &["99", "heard for 2 min"]),
        ("channel", "/v1/channels", named, &["@famulus_bot"]),
        ("channel", "/v1/channels", json!({"channels": []}), &["docs/CHANNELS.md"]),
        ("channel pair telegram", "/v1/invitations", link, &["15 min", "once", "https://t.me/x?y"]),
        (
            "channel link signal",
            "/v1/links",
            json!({"link": "sgnl://linkdevice?uuid=a\u{1b}[2J"}),
            &["sgnl://linkdevice?uuid=a", "+4915550000099 is linked"],
        ),
        (
            "channel register signal +4915550000099 --call",
            "/v1/registrations",
            json!({"number": "+4915550000099"}),
            &["famulus channel verify signal +4915550000099 CODE"],
        ),
        (
            "channel verify signal +4915550000099 123-456 --pin 2468",
            "/v1/registrations/verify",
            json!({"account": "+4915550000099"}),
            &["+4915550000099 is registered"],
        ),
    ] {
        peer.script().answers.push((end, 200, answer));
        if line.starts_with("channel link") {
            let linked = json!({"account": "+4915550000099"});
            peer.script().answers.push(("/v1/links/finish", 200, linked));
        }
        if line == "outbox" {
            // Asked for one state after the other.
            peer.script().answers.push((end, 200, json!({"messages": []})));
        }
        let (out, ended) = run(&connection, Kind::Plain, line).await;
        assert!(ended.unwrap(), "{line}");
        for expected in expected {
            assert!(out.contains(expected), "{line} gave {out}");
        }
        assert!(!out.contains('\u{1b}'), "{line}");
    }
    let asked = |number: usize| peer.heard("POST", "/v1/pairings")[number].body.clone();
    assert_eq!(asked(0), json!({"code": "ABCD2345", "becomes": {"role": "contact"}}));

    let finished = peer.heard("POST", "/v1/links/finish")[0].body.clone();
    assert_eq!(finished["channel"], "signal", "{finished}");

    let registered = peer.heard("POST", "/v1/registrations")[0].body.clone();
    assert_eq!(
        registered,
        json!({"channel": "signal", "number": "+4915550000099", "captcha": null, "call": true})
    );
    let verified = peer.heard("POST", "/v1/registrations/verify")[0].body.clone();
    assert_eq!((&verified["code"], &verified["pin"]), (&json!("123-456"), &json!("2468")));

    let invited = peer.heard("POST", "/v1/invitations")[0].body.clone();
    assert_eq!(invited, json!({"channel": "telegram", "person": null}));

    let (ada, bob, other) = (PersonId::new(), PersonId::new(), PersonId::new());
    let all = json!({"people": [{"id": ada, "name": "Ada"}, {"id": bob, "name": "Bob"},
        {"id": other, "name": "Bob"}]});
    for (line, expected) in [
        ("people pair ABCD2345 --person ada", Ok(ada)),
        (&format!("people pair ABCD2345 --person {bob}"), Ok(bob)),
        ("people pair ABCD2345 --person Eve", Err("nobody called `Eve`")),
        ("people pair ABCD2345 --person bob", Err("several people are called `bob`")),
    ] {
        peer.script().answers.push(("/v1/people", 200, all.clone()));
        if expected.is_ok() {
            peer.script().answers.push(("/v1/pairings", 200, known.clone()));
        }
        let (_, ended) = run(&connection, Kind::Plain, line).await;
        match expected {
            Ok(person) => {
                assert!(ended.unwrap(), "{line}");
                let last = peer.heard("POST", "/v1/pairings").len() - 1;
                assert_eq!(asked(last), json!({"code": "ABCD2345", "becomes": {"person": person}}));
            }
            Err(words) => assert!(ended.unwrap_err().to_string().contains(words), "{line}"),
        }
    }
    peer.script().answers.push(("/v1/pairings", 200, known));
    assert!(run(&connection, Kind::Plain, "people pair ABCD2345 --me").await.1.unwrap());
    let last = peer.heard("POST", "/v1/pairings").len() - 1;
    assert!(asked(last)["becomes"]["person"].is_string(), "{}", asked(last));
}

#[tokio::test]
async fn the_doctor_names_what_failed_and_ends_with_it() {
    let peer = Peer::start(Script::default()).await;
    let check = async |connection: &Connection, expected: &[&str]| {
        let (out, ended) = run(connection, Kind::Plain, "doctor").await;
        assert!(!ended.unwrap(), "{out}");
        for expected in expected {
            assert!(out.contains(expected), "{expected} in {out}");
        }
    };
    check(&peer.connection("fam_wrong"), &["FAIL  account", "`famulus token`"]).await;

    let connection = peer.connection(TOKEN);
    peer.script().answers.push((
        "/v1/me",
        200,
        json!({"person": {"name": "Ada"}, "scope": "owner", "version": "9.9.9"}),
    ));
    check(&connection, &["FAIL  version", "9.9.9", "do: use the program"]).await;

    peer.script().answers.push((
        "/v1/status",
        200,
        json!({"version": env!("CARGO_PKG_VERSION"), "checks": [
            {"name": "disk", "ok": false, "detail": "full\u{1b}[2J", "remedy": "make room"},
        ]}),
    ));
    check(&connection, &["FAIL  disk: full", "do: make room", "1 check failed"]).await;

    peer.script().answers.push(("/readyz", 503, json!({})));
    check(&connection, &["FAIL  ready", "503"]).await;

    peer.script().answers.push(("/livez", 404, json!({})));
    check(&connection, &["FAIL  server", "answers 404"]).await;
}

#[tokio::test]
async fn what_a_server_sends_cannot_command_the_terminal() {
    let peer = Peer::start(Script::default()).await;
    let evil = "\u{1b}]0;title\u{7}\u{9b}2J";
    let job = json!({"id": evil, "kind": evil, "reason": evil, "attempts": 1});
    peer.script().answers.extend([
        ("/queue/dead", 200, json!({"jobs": [job.clone()]})),
        ("/queue/dead", 200, json!({"jobs": [job]})),
        ("/v1/status", 200, json!({"version": evil, "model": evil})),
        ("/v1/status", 418, json!({"title": evil, "detail": evil, "remedy": evil})),
    ]);
    let kind = Kind::Terminal(Size { columns: 80, rows: 24 });
    let connection = peer.connection(TOKEN);
    for line in ["queue dead", "queue dead --json", "status"] {
        let (out, ended) = run(&connection, kind, line).await;
        assert!(ended.unwrap());
        assert!(out.chars().all(|c| c == '\n' || !c.is_control()), "{line} gave {out:?}");
    }
    let error = run(&connection, kind, "status").await.1.unwrap_err().to_string();
    assert!(error.chars().all(|c| !c.is_control()), "{error:?}");
}

#[tokio::test]
async fn an_answer_of_another_kind_of_server_is_told() {
    let peer = Peer::start(Script::default()).await;
    for body in [json!("welcome"), json!({"version": 7})] {
        peer.script().answers.push(("/v1/status", 200, body));
        let error = run(&peer.connection(TOKEN), Kind::Plain, "status").await.1.unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
        assert!(error.to_string().contains("famulus doctor"));
    }
}

#[tokio::test]
async fn a_path_before_the_api_is_kept() {
    let peer = Peer::start(Script::default()).await;
    let mut connection = peer.connection(TOKEN);
    connection.url.push_str("/home/famulus/");
    let client = Client::new(&connection).unwrap();
    let _missing: Result<Value, Error> = client.get(&["v1", "me"], &[], "me").await;
    assert_eq!(peer.heard("GET", "/v1/me")[0].path, "/home/famulus/v1/me");
}

#[test]
fn the_options_stand_anywhere() {
    let parsed = Program::try_parse_from([
        "famulus",
        "queue",
        "dead",
        "--url",
        "http://127.0.0.1:9",
        "--token-file",
        "/t",
        "--no-color",
    ])
    .unwrap();
    assert_eq!(parsed.connection.url, "http://127.0.0.1:9");
    assert!(parsed.connection.no_color);
    assert!(Program::try_parse_from(["famulus", "history", "0"]).is_err());
    assert!(Program::try_parse_from(["famulus", "history", "201"]).is_err());
}
