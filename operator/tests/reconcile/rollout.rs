//! Plugins whose revisions wait until the owner names one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::{Bench, revision, wait};

const REFRESH: &str = "famulus.dev/refresh";
const RETRY: &str = "famulus.dev/retry";

fn manual(pin: Option<char>) -> Value {
    let mut spec = json!({"rollout": "Manual"});
    if let Some(pin) = pin {
        spec["revision"] = revision(pin).into();
    }
    spec
}

/// A Plugin of which this revision was permitted and serves.
async fn serving(letter: char) -> Bench {
    let bench = Bench::new();
    bench.plugin(manual(None));
    bench.settle().await;
    bench.bundle_ends(&revision(letter));
    bench.settle().await;
    bench.plugin(manual(Some(letter)));
    bench.settle().await;
    bench.restored_build_ends(&revision(letter));
    bench.settle().await;
    assert_eq!(bench.ready(), ("True".into(), "Idle".into()), "{}", bench.status());
    bench
}

/// The source is looked at once more, and gives this revision.
async fn offers(bench: &Bench, letter: char, when: &str) {
    bench.annotate(REFRESH, when);
    bench.settle().await;
    bench.bundle_ends(&revision(letter));
    bench.settle().await;
}

#[tokio::test]
async fn what_the_source_gives_is_told_and_nothing_of_it_runs() {
    let bench = Bench::new();
    let mut spec = manual(None);
    spec["runner"] = json!({"replicas": 1});
    bench.plugin(spec.clone());
    bench.settle().await;
    assert_eq!(bench.status()["offered"]["revision"], Value::Null);
    // The Pod has no container in which code of a plugin runs.
    assert_eq!(bench.reach().1, ["probe", "bundle"]);
    bench.bundle_ends(&revision('a'));
    bench.settle().await;
    let offered = &bench.status()["offered"];
    assert_eq!(
        (&offered["revision"], &offered["commit"]),
        (&revision('a').into(), &"c0ffee".repeat(6).into())
    );
    assert_eq!(bench.ready(), ("False".into(), "Offered".into()));
    assert_eq!(bench.condition("Built"), ("Unknown".into(), "Offered".into()));
    assert!(bench.message("Ready").contains(&revision('a')));
    assert_eq!(bench.status()["revision"], Value::Null);
    assert_eq!(bench.runner()["replicas"], 0);
    wait(Duration::from_hours(1));
    bench.settle().await;
    assert_eq!(bench.cluster.names("jobs"), [""; 0], "it waits");

    spec["revision"] = revision('a').into();
    bench.plugin(spec);
    bench.settle().await;
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    bench.restored_build_ends(&revision('a'));
    bench.settle().await;
    assert_eq!(bench.status()["revision"], revision('a'));
    assert_eq!(bench.status()["commit"], "c0ffee".repeat(6), "the look said it");
    assert_eq!(bench.runner()["replicas"], 1);
}

#[tokio::test]
async fn a_look_changes_nothing_of_what_serves() {
    let bench = serving('a').await;
    let mut spec = manual(Some('a'));
    spec["source"] = json!({"git": {"url": "git://git.example/weather.git", "ref": "v2"}});
    bench.plugin(spec);
    bench.settle().await;
    assert_eq!(bench.reach().1, ["probe", "bundle"]);
    assert_eq!(bench.ready().1, "Idle");
    let look = bench.status()["offered"]["look"].clone();
    bench.bundle_ends(&revision('b'));
    bench.settle().await;
    assert_eq!(
        bench.status()["offered"],
        json!({
            "look": look, "revision": revision('b'), "commit": "c0ffee".repeat(6),
        })
    );
    assert_eq!(bench.status()["revision"], revision('a'));
    assert_eq!(bench.ready().1, "Idle");
    // The same source once more.
    bench.annotate(REFRESH, "1");
    bench.settle().await;
    assert_ne!(bench.status()["offered"]["look"], look);
    assert_eq!(bench.status()["offered"]["revision"], Value::Null, "it is not known yet");
    bench.bundle_ends(&revision('c'));
    bench.settle().await;
    assert_eq!(bench.status()["offered"]["revision"], revision('c'));
}

#[tokio::test]
async fn a_look_that_fails_is_told_and_tried_again_where_that_may_help() {
    for (reason, again) in [("SourceUnreachable", true), ("ManifestInvalid", false)] {
        let bench = serving('a').await;
        bench.annotate(REFRESH, "1");
        bench.settle().await;
        bench.build_fails(reason, "it does not work");
        bench.settle().await;
        let offered = bench.status()["offered"].clone();
        assert_eq!(
            (&offered["reason"], &offered["message"]),
            (&reason.into(), &"it does not work".into())
        );
        assert_eq!(bench.condition("Built"), ("False".into(), reason.into()));
        assert_eq!(bench.ready(), ("True".into(), "Idle".into()));
        wait(Duration::from_secs(31));
        bench.settle().await;
        assert_eq!(!bench.cluster.names("jobs").is_empty(), again, "{reason}");
    }
}

#[tokio::test]
async fn while_what_was_permitted_fails_its_remedy_can_be_offered_and_permitted() {
    let bench = serving('a').await;
    offers(&bench, 'b', "1").await;
    bench.plugin(manual(Some('b')));
    bench.settle().await;
    let job = bench.job();
    bench.build_fails("InitFailed", "it wants a compiler");
    bench.settle().await;
    assert_eq!(bench.condition("Built"), ("False".into(), "InitFailed".into()));
    assert_eq!(bench.status()["revision"], revision('a'));

    bench.annotate(REFRESH, "2");
    bench.settle().await;
    assert_eq!(bench.reach().1, ["probe", "bundle"], "the remedy is looked for");
    bench.bundle_ends(&revision('c'));
    bench.settle().await;
    assert_eq!(bench.status()["offered"]["revision"], revision('c'));
    assert_eq!(bench.condition("Built"), ("False".into(), "InitFailed".into()), "still");
    assert_eq!(bench.cluster.names("jobs"), [""; 0], "a final failure is not tried again");

    // Asked for once more, it is.
    bench.annotate(RETRY, "1");
    bench.settle().await;
    assert_ne!(bench.job(), job);
    bench.plugin(manual(Some('c')));
    bench.settle().await;
    bench.restored_build_ends(&revision('c'));
    bench.settle().await;
    assert_eq!(bench.status()["revision"], revision('c'));
    assert_eq!(bench.condition("Built").1, "RevisionBuilt");
}

/// A yes to one revision says nothing of another.
#[tokio::test]
async fn what_serves_is_given_nothing_of_what_the_next_revision_may() {
    let bench = serving('a').await;
    offers(&bench, 'b', "1").await;
    let reach = || bench.runner()["template"]["metadata"]["labels"]["famulus.dev/egress"].clone();
    let mut wider = manual(Some('b'));
    wider["egress"] = json!({"mode": "Internet"});
    bench.plugin(wider);
    bench.settle().await;
    assert_eq!(bench.status()["granted"], json!({"tools": ["*"], "egress": "None"}));
    assert_eq!(reach(), "none");
    bench.restored_build_ends(&revision('b'));
    bench.settle().await;
    assert_eq!(bench.status()["granted"], json!({"tools": ["*"], "egress": "Internet"}));
    assert_eq!(reach(), "internet");
    // Less is less at once.
    let mut narrower = manual(Some('a'));
    narrower["permissions"] = json!({"tools": ["look"]});
    bench.plugin(narrower);
    bench.settle().await;
    assert_eq!(bench.status()["revision"], revision('b'));
    assert_eq!(reach(), "none");
}

#[tokio::test]
async fn a_look_does_not_disturb_a_build() {
    let bench = serving('a').await;
    offers(&bench, 'b', "1").await;
    bench.plugin(manual(Some('b')));
    bench.settle().await;
    let job = bench.job();
    bench.annotate(REFRESH, "2");
    bench.settle().await;
    assert_eq!(bench.job(), job);
    bench.restored_build_ends(&revision('b'));
    bench.settle().await;
    assert_eq!(bench.status()["revision"], revision('b'));
    assert_eq!(bench.reach().1, ["probe", "bundle"], "then it is looked at");
}

#[tokio::test]
async fn what_served_by_itself_stops_where_it_has_to_be_named() {
    let bench = Bench::new();
    bench.build(json!({"runner": {"replicas": 1}})).await;
    bench.plugin(json!({"rollout": "Manual", "runner": {"replicas": 1}}));
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 0);
    assert_eq!(bench.ready(), ("False".into(), "Offered".into()));
    assert_eq!(bench.status()["offered"]["revision"], revision('a'), "it is known already");
}

#[tokio::test]
async fn a_process_that_knows_nothing_goes_on_where_the_last_one_was() {
    let mut bench = Bench::new();
    bench.plugin(manual(None));
    bench.try_reconcile().await.unwrap();
    bench.restart();
    bench.settle().await;
    bench.bundle_ends(&revision('a'));
    bench.try_reconcile().await.unwrap();
    bench.restart();
    bench.settle().await;
    assert_eq!(bench.status()["offered"]["revision"], revision('a'));
    assert_eq!(bench.cluster.names("jobs"), [""; 0]);
}

/// However often the source is looked at: `Built` moves with each look.
#[tokio::test]
async fn since_when_a_revision_serves_moves_with_the_revision_alone() {
    let bench = serving('a').await;
    let since = || bench.status()["servesSince"].clone();
    let first = since();
    assert!(first.is_string(), "{first}");
    wait(Duration::from_secs(90));
    offers(&bench, 'a', "1").await;
    offers(&bench, 'b', "2").await;
    assert_eq!((since(), bench.ready().1.as_str()), (first.clone(), "Idle"));
    bench.plugin(manual(Some('b')));
    bench.settle().await;
    assert_eq!(since(), first, "until the other one serves");
    bench.restored_build_ends(&revision('b'));
    bench.settle().await;
    assert_eq!(bench.status()["revision"], revision('b'));
    assert_ne!(since(), first);
}
