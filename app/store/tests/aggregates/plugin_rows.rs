//! What the owner wants of plugins: offered, permitted, serving, gone back to, removed.

use crate::support::with_store;
use famulus_core::plugin::{Egress, Granted, PluginRow, PluginRows as _, PluginSource, Trouble};
use famulus_store::Store;
use uuid::Uuid;

fn row(name: &str) -> PluginRow {
    PluginRow {
        uid: Uuid::now_v7().to_string(),
        name: name.to_owned(),
        source: source("main"),
        offered: None,
        wanted: None,
        serving: None,
        rendered: 1,
        trouble: None,
    }
}

fn source(name: &str) -> PluginSource {
    PluginSource::Git { url: "https://example.com/p".to_owned(), r#ref: name.to_owned() }
}

fn granted(revision: &str, tools: &[&str], egress: Egress) -> Granted {
    let tools = tools.iter().map(|&tool| tool.to_owned()).collect();
    Granted { revision: revision.to_owned(), tools, egress }
}

async fn now(store: &Store, name: &str) -> PluginRow {
    store.plugin_row(name).await.unwrap().unwrap()
}

#[tokio::test]
async fn nothing_serves_that_was_not_permitted_by_its_digest() {
    with_store(async |world| {
        let store = &world.store;
        let plugin = row("weather");
        assert!(store.begin_plugin(&plugin).await.unwrap());
        assert!(!store.begin_plugin(&row("weather")).await.unwrap(), "its name is taken");
        let uid = &plugin.uid;
        let first = granted("sha256:a", &["*"], Egress::None);
        assert!(!store.permit(uid, &first, "Ada").await.unwrap(), "nothing is offered");
        store.offer(uid, &source("v1"), "sha256:a", "Ada").await.unwrap();
        let other = granted("sha256:b", &["*"], Egress::None);
        assert!(!store.permit(uid, &other, "Ada").await.unwrap(), "another one is offered");
        assert_eq!(now(store, "weather").await.offered.as_deref(), Some("sha256:a"));
        assert!(store.permit(uid, &first, "Ada").await.unwrap());
        let before = now(store, "weather").await;
        assert_eq!((before.unbuilt(), before.offered.as_deref()), (Some(&first), None));
        assert_eq!((before.serving.as_ref(), &before.source), (None, &source("v1")));

        // Only what is wanted comes to serve.
        store.serves(uid, "sha256:b").await.unwrap();
        assert_eq!(now(store, "weather").await.serving, None);
        store.serves(uid, "sha256:a").await.unwrap();
        let serving = now(store, "weather").await;
        assert_eq!((serving.unbuilt(), serving.serving.as_ref()), (None, Some(&first)));
        assert!(serving.rendered > before.rendered);
    })
    .await;
}

#[tokio::test]
async fn what_serves_keeps_its_own_rights_until_the_next_does() {
    with_store(async |world| {
        let store = &world.store;
        let plugin = row("weather");
        let uid = &plugin.uid;
        store.begin_plugin(&plugin).await.unwrap();
        let first = granted("sha256:a", &["look"], Egress::None);
        store.offer(uid, &source("v1"), "sha256:a", "Ada").await.unwrap();
        store.permit(uid, &first, "Ada").await.unwrap();
        store.serves(uid, "sha256:a").await.unwrap();

        let second = granted("sha256:b", &["*"], Egress::Internet);
        store.offer(uid, &source("v2"), "sha256:b", "Ada").await.unwrap();
        store.permit(uid, &second, "Ada").await.unwrap();
        let why = Trouble { reason: "InitFailed".to_owned(), message: "no".to_owned() };
        store.failed(uid, "sha256:a", &why).await.unwrap();
        assert_eq!(now(store, "weather").await.trouble, None, "it is not what is wanted");
        store.failed(uid, "sha256:b", &why).await.unwrap();
        let failed = now(store, "weather").await;
        assert_eq!((failed.serving.as_ref(), failed.trouble), (Some(&first), Some(why)));
        assert_eq!(failed.offered.as_deref(), Some("sha256:b"), "it may be permitted again");
        store.configured(uid, "Ada").await.unwrap();
        assert_eq!(now(store, "weather").await.trouble, None, "it may be tried again");
        store.serves(uid, "sha256:b").await.unwrap();
        assert_eq!(now(store, "weather").await.serving, Some(second.clone()));

        // Narrower rights of what serves hold at once.
        let narrow = granted("sha256:b", &["look"], Egress::None);
        store.permit(uid, &narrow, "Ada").await.unwrap();
        assert_eq!(now(store, "weather").await.serving, Some(narrow));
        store.want_again(uid, &first, "Ada").await.unwrap();
        assert_eq!(now(store, "weather").await.unbuilt(), Some(&first));

        let history = store.plugin_history(uid).await.unwrap();
        let what: Vec<(&str, Option<&str>)> =
            history.iter().map(|event| (event.what.as_str(), event.who.as_deref())).collect();
        let ada = Some("Ada");
        let expected = [
            ("fetched", ada),
            ("permitted", ada),
            ("serves", None),
            ("fetched", ada),
            ("permitted", ada),
            ("failed: InitFailed: no", None),
            ("configured", ada),
            ("serves", None),
            ("permitted", ada),
            ("rolled back", ada),
        ];
        assert_eq!(what, expected);
        store.remove_plugin(uid).await.unwrap();
        assert_eq!(store.plugin_rows().await.unwrap(), []);
        assert_eq!(store.plugin_history(uid).await.unwrap(), []);
        // Of one that is gone nothing is changed, and that is no failure.
        store.offer(uid, &source("v3"), "sha256:c", "Ada").await.unwrap();
        store.want_again(uid, &first, "Ada").await.unwrap();
        store.configured(uid, "Ada").await.unwrap();
        assert_eq!(store.plugin_rows().await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn of_what_became_of_a_plugin_the_newest_is_kept() {
    with_store(async |world| {
        let store = &world.store;
        let plugin = row("weather");
        store.begin_plugin(&plugin).await.unwrap();
        for number in 0..210 {
            let revision = format!("sha256:{number}");
            store.offer(&plugin.uid, &source("v1"), &revision, "Ada").await.unwrap();
        }
        let history = store.plugin_history(&plugin.uid).await.unwrap();
        assert_eq!(history.len(), 200);
        assert_eq!(history[199].revision.as_deref(), Some("sha256:209"));
    })
    .await;
}
