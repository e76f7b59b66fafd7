use super::life::offered;
use crate::fake::plugins::digest;
use crate::fixture::{Bench, call_of};
use famulus_core::ids::MessageId;
use famulus_core::message::{Message, MessageRole, Part, PartBody, Provenance};
use famulus_core::person::Role;
use famulus_core::plugin::{Contents, Description, Egress, Offer};
use famulus_core::tool::{OwnerWords, ToolOutput, Verdict};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// A message of a user, with a part by each of these.
fn said(parts: &[(&str, Provenance)]) -> Arc<Message> {
    let part = |(text, provenance): &(&str, Provenance)| Part {
        body: PartBody::Text { text: (*text).to_owned() },
        provenance: *provenance,
    };
    Arc::new(Message {
        id: MessageId::new(),
        seq: 1,
        role: MessageRole::User,
        person: None,
        turn: None,
        parts: parts.iter().map(part).collect(),
        blocks: None,
        created_at: Timestamp::UNIX_EPOCH,
    })
}

fn install(url: &str) -> Value {
    json!({"action": "install", "url": url})
}

fn question(bench: &Bench, arguments: &Value) -> String {
    let call = call_of("manage_plugins", &arguments.to_string());
    let Verdict::Ask { summary, .. } = bench.check(&call).unwrap().plan().verdict else {
        panic!("nobody is asked")
    };
    summary
}

#[tokio::test]
async fn an_address_that_the_owner_did_not_write_is_asked_about() {
    let mut bench = Bench::new();
    let url = "https://example.com/dice.git";
    let own = |text: &'static str| said(&[(text, Provenance::Owner)]);
    for (message, fetched) in [
        (own("install https://example.com/dice.git please"), true),
        (own("install (https://example.com/dice.git), please"), true),
        (own("`https://example.com/dice.git`"), true),
        (own("install https://example.com/dice.git/other"), false),
        (own("install https://example.com/dice"), false),
        (own("see xhttps://example.com/dice.git"), false),
        // Read out of a page or a file, or said by somebody else.
        (said(&[("https://example.com/dice.git", Provenance::Tool)]), false),
        (said(&[("https://example.com/dice.git", Provenance::Contact)]), false),
        (said(&[("x", Provenance::Owner), (url, Provenance::Tool)]), false),
    ] {
        bench.context.owner = OwnerWords::new(std::slice::from_ref(&message));
        if fetched {
            let offer = bench.done("manage_plugins", install(url)).await;
            assert_eq!(offer["revision"], json!(digest("dice")), "{message:?}");
        } else {
            let error = bench.error("manage_plugins", install(url)).await;
            assert!(error.contains("install_unsaid"), "{message:?}: {error}");
        }
    }
    assert_eq!(bench.managed.asked.lock().len(), 3);
    let unsaid = json!({"action": "install_unsaid", "url": url, "ref": "v1"});
    assert_eq!(
        question(&bench, &unsaid),
        "fetch a plugin from https://example.com/dice.git at v1; nothing of it runs yet"
    );
    bench.done("manage_plugins", unsaid).await;
    assert_eq!(bench.managed.asked.lock()[3], format!("Ada installs {url} at v1"));
}

#[tokio::test]
async fn who_says_yes_reads_what_it_is_and_what_it_reaches() {
    let mut bench = Bench::new();
    let url = "https://example.com/weather";
    bench.context.owner = OwnerWords::new(&[said(&[(url, Provenance::Owner)])]);
    let given = json!({"action": "install", "url": url, "name": "weather"});
    let offer = bench.done("manage_plugins", given).await;
    assert_eq!(offer["tools"], json!([{"name": "roll", "description": "Rolls."}]));
    assert!(offer["next"].as_str().unwrap().contains("nothing of it runs yet"));
    let revision = offer["revision"].clone();
    let permit =
        json!({"action": "permit", "name": "weather", "revision": revision, "internet": true});
    assert_eq!(
        subject(&bench, &permit).await,
        "let the plugin weather run, from https://example.com/weather at HEAD (commit c0ffee00c0ff); \
         tools: roll; keys: sides, key; network: public addresses"
    );
    let done = bench.done("manage_plugins", permit).await;
    assert_eq!(done, json!({"plugin": "weather", "ready": true}));
    let permitted = format!("Ada permits weather {}: *; internet", digest("weather"));
    assert_eq!(bench.managed.asked.lock()[1], permitted);
}

/// What is asked before this is permitted.
async fn subject(bench: &Bench, permit: &Value) -> String {
    let call = call_of("manage_plugins", &permit.to_string());
    bench.check(&call).unwrap().subject(&bench.context).await.unwrap()
}

#[tokio::test]
async fn who_says_yes_to_an_update_reads_what_is_new() {
    let mut bench = Bench::new();
    let url = "https://example.com/weather";
    bench.context.owner = OwnerWords::new(&[said(&[(url, Provenance::Owner)])]);
    bench.done("manage_plugins", json!({"action": "install", "url": url, "name": "weather"})).await;
    let change = |edit: &dyn Fn(&mut Offer, &mut Description)| {
        let mut offers = bench.managed.offered.lock();
        let offer = offers.get_mut("weather").unwrap();
        let mut before = offer.description.clone();
        before.commit = Some("0123456789abcdef".to_owned());
        (offer.permitted, offer.egress) = (vec!["*".to_owned()], Egress::Internet);
        edit(offer, &mut before);
        offer.before = Some(before);
    };
    let permit = json!({"action": "permit", "name": "weather", "revision": digest("weather")});
    let mut open = permit.clone();
    open["internet"] = json!(true);
    let head = "let the new revision of the plugin weather run, from https://example.com/weather at HEAD \
                (commit c0ffee00c0ff, until now 0123456789ab); ";

    change(&|_, _| {});
    assert_eq!(
        subject(&bench, &open).await,
        format!(
            "{head}its tools and keys are the same, its files are not; tools that may run: all; \
             network: public addresses"
        )
    );
    change(&|offer, before| {
        let contents = |bytes, packages: &[&str]| {
            let packages = packages.iter().map(ToString::to_string).collect();
            Some(Contents { files: 2, bytes, packages })
        };
        before.contents = contents(900, &["rich", "httpx>=0.27"]);
        offer.description.contents = contents(2048, &["rich", "numpy"]);
    });
    assert_eq!(
        subject(&bench, &open).await,
        format!(
            "{head}new packages: numpy; packages that go: httpx>=0.27; size: 2.0 KiB in 2 files (until now: \
             900 bytes in 2 files); tools that may run: all; network: public addresses"
        )
    );
    change(&|offer, before| (offer.description.contents, before.contents) = (None, None));
    // Less than now is said as well as more.
    assert!(
        subject(&bench, &permit).await.ends_with("network: none (until now: public addresses)")
    );

    change(&|offer, before| {
        before.tools[0].description = "Threw.".to_owned();
        before.config.remove(0);
        before.config[0].key = "password".to_owned();
        before.instructions = Some("Set it.".to_owned());
        (offer.permitted, offer.egress) = (vec!["roll".to_owned()], Egress::None);
    });
    assert_eq!(
        subject(&bench, &open).await,
        format!(
            "{head}changed tools: roll; new keys: sides, key; keys that go: password; its instructions are \
             others; tools that may run: all (until now: roll); network: public addresses (until now: none)"
        )
    );
    // The model that asks is told the same.
    let offer = bench.managed.offered.lock()["weather"].clone();
    let ToolOutput::Json(told) = offered(&offer).unwrap() else { panic!("no text") };
    let offer: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(offer["until_now"], json!({"tools": ["roll"], "network": "none"}));
    assert_eq!(offer["changes"][0], "changed tools: roll");
    assert!(offer["next"].as_str().unwrap().contains("the rights of until now"), "{offer}");
}

#[tokio::test]
async fn who_changes_the_rights_of_what_serves_reads_both() {
    let bench = Bench::new();
    let serving = bench.sandboxes.plugins.lock()[2].clone();
    let permit = json!({"action": "permit", "name": serving.name, "revision": serving.revision,
        "tools": ["one"], "internet": true});
    assert_eq!(
        subject(&bench, &permit).await,
        "let the plugin weather run; tools that may run: one (until now: look, watch); network: public addresses \
         (until now: none)"
    );
}

#[tokio::test]
async fn what_serves_is_no_sign_of_what_was_permitted() {
    let mut bench = Bench::new();
    let url = "https://example.com/weather";
    bench.context.owner = OwnerWords::new(&[said(&[(url, Provenance::Owner)])]);
    bench.done("manage_plugins", json!({"action": "install", "url": url, "name": "weather"})).await;
    // An earlier one serves, and what was permitted is offered again: it failed.
    for plugin in bench.sandboxes.plugins.lock().iter_mut() {
        plugin.revision = plugin.revision.as_ref().map(|_| digest("earlier"));
    }
    let permit = json!({"action": "permit", "name": "weather", "revision": digest("weather")});
    let done = bench.done("manage_plugins", permit).await;
    assert!(done["not_ready"].as_str().unwrap().contains("NotBuilt"), "{done}");
    assert_eq!(done.get("ready"), None);
}

#[tokio::test]
async fn a_secret_passes_through_no_model() {
    let mut bench = Bench::new();
    let url = "https://example.com/dice";
    bench.context.owner = OwnerWords::new(&[said(&[(url, Provenance::Owner)])]);
    bench.done("manage_plugins", install(url)).await;
    let configure = |key: &str, value: &str| json!({"action": "configure", "name": "dice", "key": key, "value": value});
    let error = bench.error("manage_plugins", configure("key", "hunter2")).await;
    assert!(error.contains("famulus plugin configure dice key"), "{error}");
    let error = bench.error("manage_plugins", configure("nosuch", "1")).await;
    assert!(error.contains("its keys are: sides, key"), "{error}");
    bench.done("manage_plugins", configure("sides", "20")).await;
    let asked = bench.managed.asked.lock().clone();
    assert_eq!(asked[1..], ["Ada configures sides of dice: Some(Number(20))"]);
}

#[tokio::test]
async fn plugins_are_the_owners_to_manage() {
    let mut bench = Bench::new();
    bench.context.person.role = Role::Member;
    for arguments in [
        install("https://example.com/dice"),
        json!({"action": "remove", "name": "weather"}),
        json!({"action": "update", "name": "weather"}),
    ] {
        let error = bench.error("manage_plugins", arguments).await;
        assert!(error.contains("only the owner"), "{error}");
    }
    assert_eq!(bench.managed.asked.lock().len(), 0);
    bench.context.person.role = Role::Owner;
    bench.done("manage_plugins", json!({"action": "rollback", "name": "weather"})).await;
    bench.done("manage_plugins", json!({"action": "remove", "name": "weather"})).await;
    let asked = bench.managed.asked.lock().clone();
    assert_eq!(asked, ["Ada rolls weather back to None", "weather is removed"]);
    assert_eq!(
        question(&bench, &json!({"action": "remove", "name": "weather"})),
        "remove the plugin weather with its files and its keys"
    );
}
