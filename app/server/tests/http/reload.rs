//! A configuration that is changed while the assistant runs.

use crate::world::{self, Setup, World};
use famulus_models::{Models, scripted::Scripted};
use famulus_server::{
    config::{self, KEYS, Takes},
    reload::{Reach, Reload},
};
use famulus_telemetry::Redactor;
use parking_lot::Mutex;
use serde_json::Value;
use std::{fs, sync::Arc, time::Duration};

#[test]
fn every_key_of_the_model_is_live() {
    let of_model = || KEYS.iter().filter(|key| key.path.starts_with("model."));
    assert!(of_model().count() > 10);
    let waiting: Vec<_> = of_model().filter(|key| key.takes == Takes::Restart).collect();
    assert!(waiting.is_empty(), "{waiting:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_key_is_in_force_at_once_or_said_to_wait() {
    world::install_tls();
    let (first, second) = (Scripted::start().await.unwrap(), Scripted::start().await.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = (folder.path().join("config.toml"), folder.path().join("key"));
    let write = |server: &Scripted, name: &str, rest: &str| {
        let (url, key) = (server.base_url(), key.display());
        let model = format!("base_url = '{url}'\nname = '{name}'\napi_key = {{ file = '{key}' }}");
        fs::write(&file, format!("{rest}\n[model]\n{model}\n")).unwrap();
    };
    fs::write(&key, "sk-the-first").unwrap();
    write(&first, "one", "");
    let loaded = config::load(Some(&file)).unwrap();
    let redactor = Redactor::default();
    let config = loaded.with_secrets(&redactor).unwrap();
    let models = Models::from_config(config.model.clone()).unwrap();
    let setup = Setup::new(models.clone()).set(|it| it.model = config.model);
    world::run(setup, async |world| {
        let owner = &world.owner;
        let levels = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&levels);
        let reach = Reach {
            model: models,
            redactor: redactor.clone(),
            log: Box::new(move |level| told.lock().push(level.to_owned())),
        };
        let started = loaded.values().unwrap();
        let at = file.clone();
        let find = move || at.exists().then(|| at.clone());
        let mut reload =
            world.app(|app| Reload::new(app, Box::new(find), started, reach));
        owner.say("Hello!").await;
        owner.titled().await;
        let before = first.received().len();

        write(&second, "two", "");
        reload.look();
        owner.say("Hello!").await;
        let asked = second.received().pop().unwrap();
        assert_eq!((first.received().len(), second.received().len()), (before, 1));
        assert_eq!(asked.json()["model"], "two");
        assert_eq!(asked.header("authorization"), Some("Bearer sk-the-first"));
        assert_eq!(owner.get("/v1/me").await.ok()["model"], "two");
        assert_eq!(configuration(world).await, (true, "in force as it stands".to_owned()));

        // The file with the key is another one; the configuration is the same.
        fs::write(&key, "sk-the-second").unwrap();
        reload.look();
        owner.say("Hello!").await;
        let asked = second.received().pop().unwrap();
        assert_eq!(asked.header("authorization"), Some("Bearer sk-the-second"));
        assert_eq!(redactor.redact("sk-the-second"), "[redacted]");

        let changed = "data_dir = '/elsewhere'\ntelemetry.log = 'debug'\n[turns]\nsilence_seconds = 7\n\
                       first_silence_seconds = 9\nconcurrency = 3\n[api]\nchat_wait_seconds = 5";
        write(&second, "two", changed);
        reload.look();
        let limits = world.app(|app| app.limits.borrow().timeouts);
        assert_eq!(limits.between, Duration::from_secs(7));
        assert_eq!(limits.first, Duration::from_secs(9));
        assert_eq!(levels.lock().last().map(String::as_str), Some("debug"));
        let waits = "changed, and not in force before the next start: api.chat_wait_seconds, \
                     data_dir, turns.concurrency";
        assert_eq!(configuration(world).await, (false, waits.to_owned()));

        fs::write(&file, "[model]\nbase_ulr = 'x'").unwrap();
        reload.look();
        let (fine, detail) = configuration(world).await;
        assert!(!fine && detail.contains("the next start would fail"), "{detail}");
        assert!(detail.contains("did you mean `model.base_url`?"), "{detail}");
        fs::write(&file, "[model]\nname = 'two'").unwrap();
        reload.look();
        let (fine, detail) = configuration(world).await;
        assert!(!fine && detail.contains("`model.base_url` is not set"), "{detail}");
        owner.say("Hello!").await;
        assert_eq!(second.received().len(), 3, "what was in force stays");

        // Without a file the demo model answers, until there is one.
        fs::remove_file(&file).unwrap();
        reload.look();
        owner.say("Hello!").await;
        assert_eq!(owner.get("/v1/me").await.ok()["model"], "demo");
        write(&first, "one", "");
        reload.look();
        assert_eq!(configuration(world).await, (true, "in force as it stands".to_owned()));
        owner.say("Hello!").await;
        assert_eq!(first.received().len(), before + 1);
    })
    .await;
}

/// What the server's own check says of the configuration.
async fn configuration(world: &World) -> (bool, String) {
    let status = world.owner.get("/v1/status").await.ok();
    let checks = status["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "configuration").unwrap();
    let Value::String(detail) = &check["detail"] else { panic!("{check}") };
    (check["ok"] == true, detail.clone())
}
