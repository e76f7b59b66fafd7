//! Buttons: only who is asked may press, whatever stands on them.

use crate::desk::Bench;
use famulus_core::{
    intake::{Press, Writer},
    pairing::Access,
    person::Scope,
};

fn press(from: &str, code: &str) -> Press {
    let from = Writer { id: from.into(), name: from.into(), language: None };
    Press { id: "press".into(), from, chat: None, code: code.into() }
}

#[tokio::test]
async fn a_press_counts_for_whom_it_is_asked_of_and_nobody_else() {
    let check = async |from: &str, code: &str, told: Option<&str>, decides: bool| {
        let bench = Bench::new(Access::Pairing, &["*"]);
        let answer = bench.arrivals.pressed(&bench.door, &press(from, code)).await.unwrap();
        assert_eq!(answer.as_deref(), told, "{from} {code}");
        assert_eq!(bench.desk.decided.lock().len(), usize::from(decides), "{from} {code}");
        // A press of a stranger lets nobody in, and is told nothing.
        assert_eq!(bench.desk.coded.lock().len() + bench.desk.told.lock().len(), 0);
    };
    check("owner", "/approve GOODCODE", Some("Approved: do it"), true).await;
    check("owner", "/deny goodcode", Some("Denied: do it"), true).await;
    check("owner", "/approve OTHER", Some("There is no such question any more."), false).await;
    check("owner", "/stop", None, false).await;
    check("owner", "anything", None, false).await;
    for from in ["member", "contact"] {
        let told = Some("This question is not yours to answer.");
        check(from, "/approve GOODCODE", told, false).await;
    }
    for from in ["stranger", "gone owner", "gone member"] {
        check(from, "/approve GOODCODE", None, false).await;
    }
}

#[tokio::test]
async fn where_the_owner_may_not_act_a_press_does_nothing() {
    let mut bench = Bench::new(Access::Pairing, &[]);
    bench.door.owner_acts = false;
    let pressed = press("owner", "/approve GOODCODE");
    let answer = bench.arrivals.pressed(&bench.door, &pressed).await.unwrap();
    assert_eq!(answer.as_deref(), Some("This question is not yours to answer."));
    bench.door.owner_acts = true;
    bench.arrivals.pressed(&bench.door, &pressed).await.unwrap();
    assert_eq!(bench.desk.decided.lock()[0].1, Scope::Owner);
}
