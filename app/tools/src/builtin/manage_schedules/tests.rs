use crate::fixture::Bench;
use famulus_core::message::Provenance;
use famulus_core::tool::ToolOutput;
use jiff::SignedDuration;
use serde_json::{Value, json};

const TOOL: &str = "manage_schedules";
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

#[tokio::test]
async fn a_schedule_lives_from_create_to_delete() {
    let mut bench = Bench::new();
    let made = bench
        .done(TOOL, json!({"action": "create", "note": "Say good morning", "cron": "0 9 * * 1-5"}))
        .await;
    let id = made["id"].clone();
    assert_eq!(
        made,
        json!({
            "id": id,
            "note": "Say good morning",
            "cron": "0 9 * * 1-5",
            "time_zone": "Europe/Berlin",
            // The bench stands on a Friday at noon.
            "next": "2026-05-04T09:00:00+02:00",
            "announce": true,
            "missed": "run_once",
            "enabled": true
        })
    );
    let changed = bench
        .done(
            TOOL,
            json!({
                "action": "update", "id": id, "time_zone": "america/new_york", "missed": "skip",
                "announce": false
            }),
        )
        .await;
    assert_eq!(changed["time_zone"], "America/New_York");
    assert_eq!(changed["next"], "2026-05-01T09:00:00-04:00");
    assert_eq!((&changed["missed"], &changed["announce"]), (&json!("skip"), &json!(false)));
    let paused = bench.done(TOOL, json!({"action": "update", "id": id, "enabled": false})).await;
    assert_eq!(paused["enabled"], false);
    let list = bench.done(TOOL, json!({"action": "list"})).await;
    assert_eq!(list, json!({"entries": [paused]}));
    assert_eq!(bench.done(TOOL, json!({"action": "list", "id": id})).await, list);

    let delete = json!({"action": "delete", "id": id});
    assert_eq!(bench.done(TOOL, delete.clone()).await, json!({"deleted": paused}));
    let again = bench.repeat(TOOL, delete.clone()).await;
    assert_eq!(again, ToolOutput::Json(json!({"deleted": {"id": id}}).to_string()));
    assert!(bench.error(TOOL, delete).await.contains("there is no schedule with id"));
    assert_eq!(bench.done(TOOL, json!({"action": "list"})).await, json!({"entries": []}));
}

#[tokio::test]
async fn a_schedule_is_known_by_its_name() {
    let mut bench = Bench::new();
    let create = json!({"action": "create", "name": "Garden", "note": "n", "every_seconds": 60});
    let made = bench.done(TOOL, create).await;
    assert_eq!(made["name"], "Garden");
    let id = &made["id"];
    let named = json!({"action": "update", "id": id, "name": "Balcony"});
    assert_eq!(bench.done(TOOL, named).await["name"], "Balcony");
    let kept = bench.done(TOOL, json!({"action": "update", "id": id, "note": "m"})).await;
    assert_eq!((&kept["name"], &kept["note"]), (&json!("Balcony"), &json!("m")));
    for name in ["x".repeat(201), "two\nlines".to_owned()] {
        let call = json!({"action": "update", "id": id, "name": name});
        assert!(bench.error(TOOL, call).await.contains("`name` is one line of at most 200"));
    }
}

#[tokio::test]
async fn every_kind_of_rule_falls_due() {
    let mut bench = Bench::new();
    for (rule, next) in [
        (json!({"cron": "30 8 * * *"}), "2026-05-02T08:30:00+02:00"),
        (json!({"cron": " @daily "}), "2026-05-02T00:00:00+02:00"),
        (json!({"every_seconds": 3600}), "2026-05-01T13:00:00+02:00"),
        (json!({"at": "2026-05-01T18:00"}), "2026-05-01T18:00:00+02:00"),
        (json!({"at": "2026-05-01T18:00:00Z"}), "2026-05-01T20:00:00+02:00"),
        (
            json!({"at": "2026-05-01T18:00", "time_zone": "Asia/Kathmandu"}),
            "2026-05-01T18:00:00+05:45",
        ),
        (
            json!({"at": "2026-05-01T18:00", "cron": "", "every_seconds": null}),
            "2026-05-01T18:00:00+02:00",
        ),
    ] {
        let mut call = json!({"action": "create", "note": "n"});
        call.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
        assert_eq!(bench.done(TOOL, call).await["next"], next, "{rule}");
    }
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused() {
    let mut bench = Bench::new();
    let made =
        bench.done(TOOL, json!({"action": "create", "note": "n", "cron": "0 9 * * *"})).await;
    let id = &made["id"];
    for (call, expected) in [
        (json!({"action": "create", "cron": "0 9 * * *"}), "`note` is missing or blank"),
        (json!({"action": "create", "note": " ", "cron": "0 9 * * *"}), "`note` is missing"),
        (json!({"action": "create", "note": "n"}), "exactly one of `cron`, `every_seconds`"),
        (
            json!({"action": "create", "note": "n", "cron": "0 9 * * *", "every_seconds": 60}),
            "exactly one of `cron`, `every_seconds` and `at`, not several",
        ),
        (json!({"action": "create", "note": "n", "cron": "0 0 9 * * 1"}), "6 fields instead of"),
        (json!({"action": "create", "note": "n", "cron": "0 0 30 2 *"}), "never falls due"),
        (json!({"action": "create", "note": "n", "every_seconds": 59}), "the shortest interval"),
        (json!({"action": "create", "note": "n", "at": "2026-05-01T12:00"}), "has passed"),
        (json!({"action": "create", "note": "n", "at": "soon"}), "`soon`, which is not a time"),
        (
            json!({"action": "create", "note": "n", "cron": "0 9 * * *", "time_zone": "CET+9"}),
            "`CET+9` is not a time zone",
        ),
        (json!({"action": "create", "note": "n", "at": "2030-01-01T00:00", "id": NOBODY}), "`id`"),
        (
            json!({"action": "create", "note": "x".repeat(4_001), "cron": "0 9 * * *"}),
            "4001 characters",
        ),
        (json!({"action": "update", "note": "n"}), "`id` is missing"),
        (json!({"action": "update", "id": id}), "nothing to change"),
        (json!({"action": "update", "id": id, "note": ""}), "nothing to change"),
        (json!({"action": "update", "id": NOBODY, "note": "n"}), "there is no schedule"),
        (json!({"action": "update", "id": id, "cron": "bad"}), "1 fields instead of five"),
        (json!({"action": "update", "id": id, "at": "2026-01-01T00:00"}), "has passed"),
        (json!({"action": "update", "id": id, "time_zone": "Nowhere"}), "`Nowhere` is not"),
        (json!({"action": "delete", "id": "first"}), "`first` is not an id"),
        (json!({"action": "delete", "id": NOBODY}), "there is no schedule"),
        (json!({"action": "list", "id": NOBODY}), "there is no schedule"),
        (json!({"action": "list", "missed": "sometimes"}), "at arguments/missed"),
        (json!({"action": "create", "every_seconds": "60"}), "at arguments/every_seconds"),
        (json!({"action": "create", "schedule": "0 9 * * *"}), "'schedule' was unexpected"),
    ] {
        let error = bench.error(TOOL, call.clone()).await;
        assert!(error.contains(expected), "{call}: {error}");
    }
    // None of it left anything behind.
    assert_eq!(bench.done(TOOL, json!({"action": "list"})).await, json!({"entries": [made]}));
}

#[tokio::test]
async fn a_repeat_after_its_time_has_come_is_no_mistake() {
    let mut bench = Bench::new();
    let create = json!({"action": "create", "note": "n", "at": "2026-05-01T13:00"});
    let made = bench.call(TOOL, create.clone()).await;
    bench.clock.advance(SignedDuration::from_hours(2));
    assert_eq!(bench.repeat(TOOL, create.clone()).await, made);
    assert!(bench.error(TOOL, create).await.contains("has passed"));

    let id = serde_json::from_str::<Value>(made.text()).unwrap()["id"].clone();
    let update = json!({"action": "update", "id": id, "at": "2026-05-01T15:00"});
    let moved = bench.call(TOOL, update.clone()).await;
    bench.clock.advance(SignedDuration::from_hours(2));
    assert_eq!(bench.repeat(TOOL, update).await, moved);
    // A note may still be changed; running again needs a time that is to come.
    bench.done(TOOL, json!({"action": "update", "id": id, "note": "m"})).await;
    bench.done(TOOL, json!({"action": "update", "id": id, "enabled": false})).await;
    let error = bench.error(TOOL, json!({"action": "update", "id": id, "enabled": true})).await;
    assert!(error.contains("has passed"), "{error}");
}

#[tokio::test]
async fn only_a_person_of_the_house_leaves_work_for_later() {
    let mut bench = Bench::new();
    let create = json!({"action": "create", "note": "n", "cron": "0 9 * * *"});
    let id = bench.done(TOOL, create.clone()).await["id"].clone();
    for (began_by, may) in [
        (Provenance::Owner, true),
        (Provenance::Member, true),
        (Provenance::Contact, false),
        (Provenance::Assistant, false),
        (Provenance::Tool, false),
        (Provenance::System, false),
    ] {
        bench.context.began_by = began_by;
        let update = json!({"action": "update", "id": id, "note": "n"});
        for call in [create.clone(), update] {
            let output = bench.call(TOOL, call).await;
            assert_eq!(!output.is_error(), may, "{began_by:?}: {output:?}");
        }
    }
    // A schedule may end itself.
    bench.done(TOOL, json!({"action": "list"})).await;
    bench.done(TOOL, json!({"action": "delete", "id": id})).await;
}
