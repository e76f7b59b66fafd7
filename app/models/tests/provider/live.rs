//! A configuration that changes while the model is in use.

use crate::support::{Files, client, hear, message, request, tools, user};
use famulus_core::{
    blob::Blobs,
    message::{FilePart, MessageRole, Part, PartBody, Provenance},
    model::{Model, ModelRequest},
};
use famulus_models::{Config, Models, scripted::Scripted};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Each key of the section, changed while the assistant runs.
#[tokio::test]
async fn every_key_is_in_force_for_the_next_request() {
    let (first, second) = (Scripted::start().await.unwrap(), Scripted::start().await.unwrap());
    let _tls = client(&first, "");
    let models = Models::from_config(config(&first, "")).unwrap();
    let model: Arc<dyn Model> = models.clone();
    let asked = async |server: &Scripted, extra: &str| {
        models.change(config(server, extra)).unwrap();
        hear(&model, seen_and_heard()).await;
        let request = server.received().pop().unwrap();
        let header = |name: &str| request.header(name).map(str::to_owned);
        (request.json(), header("authorization"), header("x-title"))
    };
    let roles = |body: &Value| {
        let messages = body["messages"].as_array().unwrap();
        messages.iter().filter(|message| message["role"] == "system").count()
    };
    let holds = |body: &Value, kind: &str| body.to_string().contains(&format!("\"{kind}\""));

    let (body, key, title) = asked(&first, "").await;
    assert_eq!((&body["model"], key, title), (&"m".into(), None, None));
    assert!(holds(&body, "image_url") && holds(&body, "input_audio") && holds(&body, "tools"));
    assert_eq!((roles(&body), first.received().len(), second.received().len()), (1, 1, 0));

    let (body, key, title) = asked(
        &second,
        "name = 'another'\napi_key = 'sk-later'\nheaders.X-Title = 'home'\nimages = false\n\
         audio = false\ntool_dialect = 'xml'\nsystem_prompt = 'separate'",
    )
    .await;
    assert_eq!(body["model"], "another");
    assert_eq!((key.as_deref(), title.as_deref()), (Some("Bearer sk-later"), Some("home")));
    assert!(!holds(&body, "image_url") && !holds(&body, "input_audio") && !holds(&body, "tools"));
    assert_eq!((roles(&body), first.received().len(), second.received().len()), (2, 1, 1));

    // Without an address the demo model answers, at the pace that is wanted.
    for slow in [false, true] {
        let toml = format!("demo.delay_ms = {}", if slow { 30 } else { 0 });
        models.change(toml::from_str(&toml).unwrap()).unwrap();
        let began = Instant::now();
        let words = hear(&model, request(vec![user("hello")], [].into())).await.text;
        let pauses = Duration::from_millis(30) * (words.split(' ').count() as u32 - 1);
        assert_eq!(began.elapsed() >= pauses, slow, "{:?}", began.elapsed());
    }
    assert_eq!((model.provider(), second.received().len()), ("demo", 1));
}

#[tokio::test]
async fn what_describes_no_provider_changes_nothing() {
    let server = Scripted::start().await.unwrap();
    let _tls = client(&server, "");
    let models = Models::from_config(config(&server, "")).unwrap();
    let error = models.change(toml::from_str("name = 'm'").unwrap()).unwrap_err();
    assert!(error.to_string().contains("`model.base_url` is not set"), "{error}");
    let model: Arc<dyn Model> = models;
    assert!(hear(&model, request(vec![user("hello")], [].into())).await.reply.is_some());
    assert_eq!(server.received().len(), 1);
}

/// A message with a picture and a sound, and a tool to use.
fn seen_and_heard() -> ModelRequest {
    let files = Files::default();
    let file = |mime: &str, name: &str| FilePart::new(files.add(mime, b"abc", 3), name);
    let bodies =
        [PartBody::Image(file("image/png", "a.png")), PartBody::Audio(file("audio/wav", "a.wav"))];
    let parts = bodies.into_iter().map(|body| Part::new(body, Provenance::Owner)).collect();
    let blobs: Arc<dyn Blobs> = Arc::new(files);
    ModelRequest { blobs, ..request(vec![message(MessageRole::User, parts)], tools()) }
}

fn config(server: &Scripted, extra: &str) -> Config {
    let name = if extra.contains("name = ") { "" } else { "name = 'm'\n" };
    toml::from_str(&format!("base_url = '{}'\n{name}{extra}", server.base_url())).unwrap()
}
