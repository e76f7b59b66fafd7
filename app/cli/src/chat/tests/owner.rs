//! Somebody at the keyboard: answers to approvals, and Ctrl-C.

use super::*;

fn approval(code: &str) -> Approval {
    Approval {
        id: ApprovalId::new(),
        conversation: CONVERSATION,
        turn: TURN,
        person: PersonId::new(),
        person_name: "Ada".to_owned(),
        asked: Asked::Owner,
        code: code.to_owned(),
        tool: "manage_knowledge".to_owned(),
        summary: "forget \"tea\"".to_owned(),
        shown: "manage_knowledge {\"id\":\"x⟨U+200B⟩\"}".to_owned(),
        state: ApprovalState::Pending,
        expires_at: "2026-11-21T10:05:00Z".parse().unwrap(),
    }
}

fn asks_for(approval: &Approval) -> Event {
    let status = Status::WaitingForInput {
        approval: approval.id,
        code: approval.code.clone(),
        summary: approval.summary.clone(),
    };
    Event::Status { turn: TURN, status }
}

/// A turn that asks, and goes on once it is answered.
fn asking(approval: &Approval) -> Script {
    let answered = format!("/v1/approvals/{}", approval.id);
    let steps = vec![
        accepted(),
        send(5, 1, asks_for(approval)),
        Step::After("POST", answered.leak()),
        send(5, 2, delta("Done.")),
        send(5, 3, complete("Done.")),
    ];
    Script { approvals: vec![json!(approval)], ..script(steps) }
}

#[tokio::test]
async fn an_approval_is_asked_for_with_its_exact_arguments() {
    for (typed, decision, said) in
        [("y\n", "approve", "approved"), ("\n", "deny", "denied"), ("what\nno\n", "deny", "denied")]
    {
        let approval = approval("ABCD2345");
        let mut stage = Stage::open(asking(&approval), SCREEN).await;
        let (mut keyboard, err) = (stage.keyboard.try_clone().unwrap(), stage.err.clone());
        // A key that was pressed before the question is no answer to it.
        let typist = async {
            err.wait_for("[y/N]").await;
            keyboard.write_all(typed.as_bytes()).unwrap();
        };
        let (outcome, ()) = tokio::join!(stage.say("forget it"), typist);
        assert_eq!(outcome.unwrap(), Outcome::Complete);
        let decided = stage.peer.heard("POST", &approval.id.to_string());
        assert_eq!(decided.len(), 1);
        assert_eq!(decided[0].body, json!({ "decision": decision }));
        let asked = stage.err.text();
        assert!(asked.contains("forget \"tea\"?\nmanage_knowledge {\"id\":\"x⟨U+200B⟩\"}\n"));
        assert_eq!(asked.matches("forget \"tea\"").count(), 1, "asked once: {asked}");
        assert!(asked.contains(said), "{asked}");
        assert_eq!(shown(&stage.out).last().map(String::as_str), Some("Done."));
    }
}

#[tokio::test]
async fn an_approval_that_is_answered_elsewhere_is_withdrawn() {
    let approval = approval("ABCD2345");
    let mut stage = Stage::open(asking(&approval), SCREEN).await;
    let client = stage.peer.client();
    let err = stage.err.clone();
    let elsewhere = async {
        err.wait_for("[y/N]").await;
        let mut output = Output::fake(
            Box::new(Paper::default()),
            Kind::Plain,
            Box::new(Paper::default()),
            Kind::Plain,
        );
        crate::approvals::answer(&client, &mut output, "abcd2345", crate::wire::Verdict::Approve)
            .await
            .unwrap();
    };
    let (outcome, ()) = tokio::join!(stage.say("forget it"), elsewhere);
    assert_eq!(outcome.unwrap(), Outcome::Complete);
    assert!(stage.err.text().contains("answered elsewhere"));
    assert_eq!(stage.peer.heard("POST", &approval.id.to_string()).len(), 1);
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_way_to_answer_is_shown() {
    let approval = approval("ABCD2345");
    let mut stage = Stage::open(asking(&approval), Kind::Plain).await;
    let (client, err) = (stage.peer.client(), stage.err.clone());
    let owner = async {
        err.wait_for("famulus approvals approve ABCD2345").await;
        crate::approvals::decide(&client, approval.id, crate::wire::Verdict::Approve)
            .await
            .unwrap();
    };
    let (outcome, ()) = tokio::join!(stage.say("forget it"), owner);
    assert_eq!(outcome.unwrap(), Outcome::Complete);
    assert_eq!(stage.out.text(), "Done.\n");
}

#[tokio::test]
async fn who_may_not_answer_is_told_who_may_and_once() {
    let approval = approval("ABCD2345");
    let mut question = json!(approval);
    question["may"] = json!("see");
    // The stream begins anew in the middle, and tells everything again.
    let reset = Step::Raw("event: reset\ndata: {}\n\n");
    let first = vec![accepted(), send(5, 1, asks_for(&approval)), reset];
    let again = vec![send(5, 1, asks_for(&approval)), send(5, 2, complete("No."))];
    let script = Script { approvals: vec![question], ..streams(vec![first, again]) };
    let mut stage = Stage::open(script, SCREEN).await;
    assert_eq!(stage.say("hi").await.unwrap(), Outcome::Complete);
    let told = stage.err.text();
    assert!(told.contains("the owner is asked: `famulus approvals approve ABCD2345`"), "{told}");
    assert_eq!(told.matches("forget \"tea\"?").count(), 1, "{told}");
    assert!(!told.contains("[y/N]"), "{told}");
}

#[tokio::test]
async fn ctrl_c_stops_the_turn() {
    let steps = vec![
        accepted(),
        send(5, 1, delta("Well, ")),
        Step::After("POST", "/stop"),
        send(5, 2, ended(TurnState::Cancelled, "")),
    ];
    let mut stage = Stage::open(script(steps), SCREEN).await;
    let ctrl_c = stage.ctrl_c.clone();
    let out = stage.out.clone();
    let typist = async {
        out.wait_for("Well").await;
        ctrl_c.send(()).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(stage.say("hi"), typist);
    assert_eq!(outcome.unwrap(), Outcome::Cancelled);
    assert_eq!(stage.peer.heard("POST", "/stop").len(), 1);
    assert_eq!(shown(&stage.out), ["Well,"]);
}

#[tokio::test]
async fn a_second_ctrl_c_leaves() {
    let steps = vec![accepted(), send(5, 1, delta("Well, ")), Step::Hang];
    let mut stage = Stage::open(script(steps), SCREEN).await;
    let ctrl_c = stage.ctrl_c.clone();
    let out = stage.out.clone();
    let typist = async {
        out.wait_for("Well").await;
        ctrl_c.send(()).await.unwrap();
        ctrl_c.send(()).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(stage.say("hi"), typist);
    assert_eq!(outcome.unwrap(), Outcome::Left);
}
