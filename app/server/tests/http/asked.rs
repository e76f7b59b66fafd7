//! Whose yes counts: who is asked, who sees the question, and who may refuse it.

use crate::{
    approvals::Bell,
    world::{self, Client, Puppet, Setup, Text as _, call, client, say},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a caller may do with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    Answer,
    Deny,
    See,
    Nothing,
}

impl May {
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Answer => Some("answer"),
            Self::Deny => Some("deny"),
            Self::See => Some("see"),
            Self::Nothing => None,
        }
    }

    fn covers(self, decision: &str) -> bool {
        match self {
            Self::Answer => true,
            Self::Deny => decision == "deny",
            Self::See | Self::Nothing => false,
        }
    }
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// A memory of whoever raised it.
    Own,
    /// What is nobody's own.
    Bell,
}

#[derive(Clone, Copy, Debug)]
enum By {
    Route,
    Command,
}

struct Raised {
    turn: String,
    memory: String,
    question: Value,
}

/// Rings for Eve, or forgets the memory that a message ends with.
fn model() -> Arc<Puppet> {
    Puppet::new(|_, request| {
        let heard = request.last();
        let last = heard.rsplit(' ').next().unwrap_or_default();
        let delete = json!({ "action": "delete", "store": "memory", "id": last });
        match () {
            () if request.has_results() => vec![say(heard)],
            () if last == "Eve" => vec![call("bell", &json!({ "whose": last }))],
            () => vec![call("manage_knowledge", &delete)],
        }
    })
}

async fn raise(who: &Client, about: About) -> Raised {
    let memory = json!({ "kind": "memory", "body": "I like green tea" });
    let memory = client::id_of(&who.post("/v1/knowledge", memory).await.ok(), "id");
    let turn = match about {
        About::Own => who.begin("main", &format!("forget {memory}")).await,
        About::Bell => who.begin("main", "ring at Eve").await,
    };
    let question = who.asked(&turn).await;
    Raised { turn, memory, question }
}

/// What the caller's list says of the question.
async fn listed(who: &Client, question: &Value) -> Option<Value> {
    let listed = who.get("/v1/approvals?state=pending").await.ok();
    let mut all = listed["approvals"].as_array().unwrap().iter();
    all.find(|found| found["id"] == question["id"]).cloned()
}

/// Whether the answer was taken; what was said instead stands in `refusals` for each kind of caller.
async fn answer(who: &Client, raised: &Raised, decision: &str, by: By, may: May) {
    let what = format!("{decision} by {by:?} of {may:?}");
    let Raised { question, .. } = raised;
    let allowed = may.covers(decision);
    let done = match by {
        By::Route => {
            let path = format!("/v1/approvals/{}", client::id_of(question, "id"));
            who.post(&path, json!({ "decision": decision })).await
        }
        By::Command => {
            let command = format!("/{decision} {}", client::id_of(question, "code"));
            who.post("/chat", json!({ "message": command })).await
        }
    };
    match (by, may) {
        (By::Route, _) if allowed => {
            let state = if decision == "approve" { "approved" } else { "denied" };
            assert_eq!(done.ok()["state"], state, "{what}");
        }
        (By::Command, _) if allowed => {
            let word = if decision == "approve" { "Approved: " } else { "Denied: " };
            assert!(done.ok()["response"].as_str().unwrap().starts_with(word), "{what}");
        }
        (By::Route, May::Nothing) => drop(done.refused(404)),
        (By::Command, May::Nothing) => {
            assert!(done.ok()["response"].as_str().unwrap().contains("no question"), "{what}");
        }
        (_, May::See | May::Deny | May::Answer) => drop(done.refused(403)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pair_of_a_caller_and_a_question() {
    use May::{Answer, Deny, Nothing, See};
    let bell = Arc::new(Bell::default());
    world::run(Setup::new(model()).tool(bell.clone()), async |world| {
        let owner = &world.owner;
        let (bridge, ada) = (owner.chat_only().await, owner.member("Ada").await);
        let bob = owner.member("Bob").await;
        // What the owner, the owner's token that only talks, Ada and Bob may do.
        let table = [
            (owner, About::Own, [Answer, See, Nothing, Nothing]),
            (owner, About::Bell, [Answer, See, Nothing, Nothing]),
            (&ada, About::Own, [Deny, Nothing, Answer, Nothing]),
            (&ada, About::Bell, [Answer, Nothing, See, Nothing]),
        ];
        for (raiser, about, rights) in table {
            let mut open: Option<Raised> = None;
            for (who, may) in [owner, &bridge, &ada, &bob].into_iter().zip(rights) {
                for (decision, by) in [
                    ("approve", By::Route),
                    ("approve", By::Command),
                    ("deny", By::Route),
                    ("deny", By::Command),
                ] {
                    let raised = match open.take() {
                        Some(raised) => raised,
                        None => raise(raiser, about).await,
                    };
                    let found = listed(who, &raised.question).await;
                    let shown = found.as_ref().map(|found| found["may"].as_str().unwrap());
                    assert_eq!(shown, may.word(), "{about:?}");
                    let rung = bell.rung().len();
                    answer(who, &raised, decision, by, may).await;
                    if !may.covers(decision) {
                        assert!(listed(raiser, &raised.question).await.is_some(), "it stays open");
                        open = Some(raised);
                        continue;
                    }
                    let ended = raiser.reaches(&raised.turn, "complete").await;
                    let yes = decision == "approve";
                    assert_eq!(ended["text"] == "not run: the answer was no", !yes, "{ended}");
                    let there = raiser.get(&format!("/v1/knowledge/{}", raised.memory)).await;
                    let forgotten = yes && about == About::Own;
                    assert_eq!(there.status, if forgotten { 404 } else { 200 });
                    let rings = usize::from(yes && about == About::Bell);
                    assert_eq!(bell.rung().len() - rung, rings);
                }
            }
            if let Some(raised) = open {
                raiser.chat("/stop").await;
                raiser.reaches(&raised.turn, "cancelled").await;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_the_same_twice_in_a_turn() {
    let bell = Arc::new(Bell::default());
    // Asks twice at once, and once more after the first answer.
    let model = Puppet::new(|number, _| {
        let ring = || call("bell", &json!({ "whose": "Eve" }));
        match number {
            0 => vec![ring(), ring()],
            1 => vec![ring()],
            _ => vec![say("Done.")],
        }
    });
    world::run(Setup::new(model.clone()).tool(bell.clone()), async |world| {
        let owner = &world.owner;
        let turn = owner.begin("main", "ring at Eve").await;
        let question = owner.asked(&turn).await;
        let open = owner.get("/v1/approvals?state=pending").await.ok();
        assert_eq!(open["approvals"].as_array().unwrap().len(), 1, "{open}");
        let path = format!("/v1/approvals/{}", client::id_of(&question, "id"));
        owner.post(&path, json!({ "decision": "deny" })).await.ok();
        owner.reaches(&turn, "complete").await;
        let all = owner.get("/v1/approvals").await.ok();
        assert_eq!(all["approvals"].as_array().unwrap().len(), 1, "{all}");
        assert!(bell.rung().is_empty());
        let heard = model.asked(3).await[2].last();
        assert_eq!(heard, "not run: this was asked in this turn already, and there was no yes");
    })
    .await;
}
