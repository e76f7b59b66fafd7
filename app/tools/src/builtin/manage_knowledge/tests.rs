use crate::fixture::{Bench, call_of};
use famulus_core::approval::Asked;
use famulus_core::tool::{ToolOutput, Verdict};
use serde_json::{Value, json};

const TOOL: &str = "manage_knowledge";
const NOBODY: &str = "01890000-0000-7000-8000-000000000000";

async fn add(bench: &mut Bench, arguments: Value) -> String {
    let added = bench.done(TOOL, arguments).await;
    assert_eq!(added["saved"], "added");
    added["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_memory_lives_from_upsert_to_delete() {
    let mut bench = Bench::new();
    let memory = json!({"action": "upsert", "store": "memory", "content": "likes tea"});
    let id = add(&mut bench, memory).await;
    let page = json!({"action": "upsert", "store": "scratchpad", "title": "Trip", "body": "pack"});
    let page_id = add(&mut bench, page).await;

    let replaced = bench
        .done(
            TOOL,
            json!({"action": "upsert", "store": "memory", "id": id, "content": "likes coffee"}),
        )
        .await;
    assert_eq!(replaced, json!({"id": id, "saved": "replaced"}));
    assert_eq!(
        bench.done(TOOL, json!({"action": "list", "store": "memory"})).await,
        json!({"entries": [
            {"id": id, "updated": "2026-05-01T12:00:00+02:00", "content": "likes coffee"}
        ]})
    );
    assert_eq!(
        bench.done(TOOL, json!({"action": "list", "store": "scratchpad"})).await,
        json!({"entries": [
            {"id": page_id, "title": "Trip", "updated": "2026-05-01T12:00:00+02:00"}
        ]})
    );
    assert_eq!(
        bench.done(TOOL, json!({"action": "read", "store": "scratchpad", "id": page_id})).await,
        json!({
            "id": page_id, "title": "Trip", "updated": "2026-05-01T12:00:00+02:00", "body": "pack"
        })
    );

    let delete = json!({"action": "delete", "store": "memory", "id": id});
    let deleted = bench.done(TOOL, delete.clone()).await;
    assert_eq!(deleted, json!({"id": id, "deleted": true}));
    // The same call again, as after a crash, is the same deletion; another call is an error.
    let again = bench.repeat(TOOL, delete.clone()).await;
    assert_eq!(again, ToolOutput::Json(deleted.to_string()));
    assert!(bench.error(TOOL, delete).await.contains("there is no memory with id"));
}

#[tokio::test]
async fn an_upsert_happens_once_for_its_call() {
    let mut bench = Bench::new();
    let memory = json!({"action": "upsert", "store": "memory", "content": "likes tea"});
    let first = bench.call(TOOL, memory.clone()).await;
    assert_eq!(bench.repeat(TOOL, memory.clone()).await, first);
    let list = bench.done(TOOL, json!({"action": "list", "store": "memory"})).await;
    assert_eq!(list["entries"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused() {
    let mut bench = Bench::new();
    let page = json!({"action": "upsert", "store": "scratchpad", "title": "Trip", "body": "pack"});
    let page_id = add(&mut bench, page).await;
    let memory = |fields: Value| {
        let mut call = json!({"action": "upsert", "store": "memory"});
        call.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        call
    };
    let page = |fields: Value| {
        let mut call = memory(fields);
        call["store"] = "scratchpad".into();
        call
    };
    for (call, expected) in [
        (memory(json!({})), "`content` is missing or blank"),
        (memory(json!({"content": " \n"})), "`content` is missing or blank"),
        (memory(json!({"content": null})), "`content` is missing or blank"),
        (memory(json!({"content": "a\0"})), "U+0000"),
        (memory(json!({"content": "ä".repeat(4_001)})), "4001 characters, a memory at most 4000"),
        (memory(json!({"content": "a", "title": "b"})), "`title` does not belong here"),
        (memory(json!({"content": "a", "id": "7"})), "`7` is not an id"),
        (memory(json!({"content": "a", "id": NOBODY})), "there is no memory with id"),
        (memory(json!({"content": "a", "id": page_id})), "there is no memory with id"),
        (page(json!({"title": "a"})), "`body` is missing or blank"),
        (page(json!({"title": "", "body": "b"})), "`title` is missing or blank"),
        (page(json!({"title": "a", "body": "b", "content": "c"})), "`content` does not belong"),
        (page(json!({"title": "a\nb", "body": "b"})), "a single line"),
        (page(json!({"title": "a".repeat(201), "body": "b"})), "at most 200"),
        (page(json!({"title": "a", "body": "b".repeat(65_537)})), "65537 bytes, a page at most"),
        (json!({"action": "read", "store": "memory"}), "`id` is missing"),
        (json!({"action": "read", "store": "memory", "id": page_id}), "there is no memory"),
        (json!({"action": "delete", "store": "memory", "id": page_id}), "there is no memory"),
        (json!({"action": "delete", "store": "memory", "id": NOBODY}), "there is no memory"),
        (json!({"action": "list"}), "\"store\" is a required property"),
        (json!({"action": "list", "store": "attic"}), "at arguments/store: \"attic\" is not one"),
        (json!({"action": "list", "store": "memory", "offset": -1}), "at arguments/offset"),
    ] {
        let error = bench.error(TOOL, call.clone()).await;
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // The longest that fits, fits; a blank id is none.
    add(&mut bench, memory(json!({"content": "ä".repeat(4_000), "id": ""}))).await;
    add(&mut bench, page(json!({"title": "a".repeat(200), "body": "b".repeat(65_536)}))).await;
}

#[tokio::test]
async fn a_long_page_is_read_to_its_end() {
    let mut bench = Bench::new();
    let body = (0..9_000).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
    let page = json!({"action": "upsert", "store": "scratchpad", "title": "Log", "body": body});
    let id = add(&mut bench, page).await;
    let (mut read, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let call = json!({"action": "read", "store": "scratchpad", "id": id, "offset": offset});
        let piece = bench.done(TOOL, call).await;
        read.push_str(piece["body"].as_str().unwrap());
        offset = piece["next_offset"].clone();
    }
    assert_eq!(read, body);
}

#[tokio::test]
async fn nobody_reaches_the_knowledge_of_another() {
    let mut bench = Bench::new();
    let memory = json!({"action": "upsert", "store": "memory", "content": "likes tea"});
    let id = add(&mut bench, memory).await;
    bench.context.person.id = famulus_core::ids::PersonId::new();
    let call = |action| json!({"action": action, "store": "memory", "id": id});
    assert!(bench.error(TOOL, call("read")).await.contains("there is no memory"));
    assert!(bench.error(TOOL, call("delete")).await.contains("there is no memory"));
    let list = bench.done(TOOL, json!({"action": "list", "store": "memory"})).await;
    assert_eq!(list, json!({"entries": []}));
}

#[test]
fn its_person_is_asked_about_the_very_entry() {
    let bench = Bench::new();
    let verdict = |arguments: Value| {
        bench.check(&call_of(TOOL, &arguments.to_string())).unwrap().plan().verdict
    };
    let ask = |summary: &str| Verdict::Ask { asked: Asked::Person, summary: summary.into() };
    assert_eq!(
        verdict(json!({"action": "delete", "store": "memory", "id": NOBODY})),
        ask(&format!("delete the memory with id {NOBODY}"))
    );
    assert_eq!(
        verdict(json!({"action": "delete", "store": "scratchpad", "id": NOBODY})),
        ask(&format!("delete the scratchpad page with id {NOBODY}"))
    );
    // Nobody is asked about a call that cannot work.
    let refused = verdict(json!({"action": "delete", "store": "memory", "id": "all of them"}));
    assert!(matches!(refused, Verdict::Refuse(_)), "{refused:?}");
}

#[tokio::test]
async fn what_would_be_deleted_is_read_in_words() {
    let mut bench = Bench::new();
    let long = "ä".repeat(1_000);
    let mut check = async |kind: &str, fields: Value, expected: &str| {
        let mut entry = json!({"action": "upsert", "store": kind});
        entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let id = add(&mut bench, entry).await;
        let delete = json!({"action": "delete", "store": kind, "id": id});
        let call = call_of(TOOL, &delete.to_string());
        let subject = bench.check(&call).unwrap().subject(&bench.context).await;
        assert_eq!(subject.as_deref(), Some(expected));
    };
    check(
        "memory",
        json!({"content": "likes \"tea\"\nand\tmilk"}),
        r#"forget "likes \"tea\"\nand\tmilk""#,
    )
    .await;
    check("memory", json!({"content": &long}), &{
        let first = "ä".repeat(300);
        format!("forget \"{first}\"… (the first 300 of 1000 characters)")
    })
    .await;
    check(
        "scratchpad",
        json!({"title": "Trip", "body": "pack"}),
        r#"delete the scratchpad page "Trip": "pack""#,
    )
    .await;

    let subject = async |arguments: Value| {
        let call = call_of(TOOL, &arguments.to_string());
        bench.check(&call).unwrap().subject(&bench.context).await
    };
    let nobody = subject(json!({"action": "delete", "store": "memory", "id": NOBODY})).await;
    assert_eq!(
        nobody.as_deref(),
        Some(format!("delete the memory with id {NOBODY}, which is not there").as_str())
    );
    assert_eq!(subject(json!({"action": "delete", "store": "memory"})).await, None);
}
