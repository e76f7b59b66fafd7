//! A plugin is brought, permitted, given a value, changed, rolled back and removed, and in the middle of each
//! the app or the operator dies: what is asked again is done once, what is not permitted has not run, and
//! nothing is left.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use famulus_cluster_tests::host::{enter, kill_container_of};
use famulus_cluster_tests::kubectl::{LONG, objects, tried, until};
use famulus_cluster_tests::managed::files;
use famulus_cluster_tests::release::{Release, name};

use crate::load::{self, Way};

const NAME: &str = "lives-through-deaths";
const VALUE: &str = "a value that outlives the app";
const KINDS: [&str; 7] =
    ["plugins", "pods", "jobs", "deployments", "secrets", "serviceaccounts", "pvc"];

/// Who dies, and how many milliseconds after each step was asked for.
struct Deaths {
    who: &'static str,
    /// Of a step that fetches a source.
    fetching: u64,
    /// Of one that writes.
    writing: u64,
}

#[tokio::test]
async fn a_plugin_lives_while_the_app_dies_at_each_step() {
    let cut = lives(&Deaths { who: "app", fetching: 400, writing: 8 }).await;
    assert!(cut > 0, "no step was cut off");
}

/// At more moments of each step, and the operator as well.
pub(crate) mod soak {
    use super::{Deaths, lives};

    #[tokio::test]
    async fn a_plugin_lives_whenever_app_or_operator_dies() {
        let mut cut = 0;
        for who in ["app", "operator"] {
            for (fetching, writing) in
                [(0, 0), (50, 3), (200, 6), (800, 12), (1_600, 25), (3_000, 50)]
            {
                cut += lives(&Deaths { who, fetching, writing }).await;
            }
        }
        assert!(cut > 0, "no step was cut off");
    }
}

/// A Pod of a part of the release that works.
async fn ready(who: &str) -> Value {
    let selector = format!("app.kubernetes.io/component={who}");
    until(&format!("{who} is ready"), LONG, async || {
        let pods = objects(&name(), "pods", &selector).await;
        let is_ready = |pod: &Value| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && pod["status"]["containerStatuses"][0]["ready"] == true
        };
        let pod = pods.iter().find(|pod| is_ready(pod)).cloned();
        pod.ok_or_else(|| format!("{} Pods", pods.len()))
    })
    .await
}

/// One life of a plugin. Returns how many of its steps were cut off.
async fn lives(deaths: &Deaths) -> usize {
    enter();
    // In the life before, it died last.
    ready("app").await;
    let release = load::release().await;
    let mut life = Life { deaths, way: Way::of(&release), release, cut: 0 };

    let source = json!({"source": {"inline": {"files": files(NAME, "one")}}});
    let first = life.asks(deaths.fetching, Method::POST, "", &source).await;
    life.has_not_run(None).await;
    life.is_permitted(&first).await;
    let said = life.says().await;
    assert!(said.contains("one; built for one; {}"), "{said}");

    let value = json!({"value": VALUE});
    life.asks(deaths.writing, Method::PUT, &format!("/{NAME}/config/token"), &value).await;
    life.comes_to_say(&[VALUE]).await;

    let update = json!({"files": files(NAME, "two")});
    let second =
        life.asks(deaths.fetching, Method::POST, &format!("/{NAME}/update"), &update).await;
    assert_ne!(second["revision"], first["revision"]);
    life.has_not_run(first["revision"].as_str()).await;
    let said = life.says().await;
    assert!(said.contains("one; built for one"), "{said}");
    life.is_permitted(&second).await;
    life.comes_to_say(&["two; built for two", VALUE]).await;

    life.rolls_back(&first).await;
    life.comes_to_say(&["one; ", VALUE]).await;

    life.removes().await;
    println!("{} died at each step: {} were cut off", deaths.who, life.cut);
    life.cut
}

struct Life<'a> {
    deaths: &'a Deaths,
    release: Release,
    way: Way,
    cut: usize,
}

impl Life<'_> {
    /// Asks until it is answered; somebody dies so many milliseconds after it was asked first.
    async fn answer(
        &mut self,
        after: u64,
        method: Method,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let namespace = name();
        let pod = ready(self.deaths.who).await;
        let path = format!("/v1/plugins{path}");
        let asked = self.way.ask(method.clone(), &path, Some(("", body)));
        let dies = async {
            sleep(Duration::from_millis(after)).await;
            kill_container_of(&pod);
        };
        let (first, ()) = tokio::join!(asked, dies);
        // Another Pod comes at once: a container that dies again and again waits ever longer.
        let pod = pod["metadata"]["name"].as_str().unwrap();
        let words = ["-n", &namespace, "delete", "pod", pod, "--grace-period=0", "--force"];
        tried(&words).await.unwrap();
        if let Ok(answer) = first
            && answer.0 < 500
        {
            return answer;
        }
        self.cut += 1;
        until(&format!("{method} {path} is answered"), LONG, async || {
            match self.way.ask(method.clone(), &path, Some(("", body))).await? {
                (status, said) if status >= 500 => Err(format!("{status} {said}")),
                answer => Ok(answer),
            }
        })
        .await
    }

    /// The same, and it is done.
    async fn asks(&mut self, after: u64, method: Method, path: &str, body: &Value) -> Value {
        let (status, said) = self.answer(after, method, path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {said}");
        said
    }

    /// What is offered was looked at and no more: before, it serves as it did, or there is no runner.
    async fn has_not_run(&self, serving: Option<&str>) {
        let plugin = self.read().await;
        assert_eq!(plugin["revision"].as_str(), serving, "{plugin}");
        let runners = format!("famulus.dev/plugin={NAME},famulus.dev/part=runner");
        let runners = objects(&self.release.sandbox, "pods", &runners).await;
        assert!(serving.is_some() || runners.is_empty(), "{runners:?}");
    }

    async fn is_permitted(&mut self, offer: &Value) {
        let granted = json!({"revision": offer["revision"], "tools": ["*"], "egress": "none"});
        let path = format!("/{NAME}/permit");
        self.asks(self.deaths.writing, Method::POST, &path, &granted).await;
        self.serves(offer).await;
    }

    async fn serves(&self, offer: &Value) {
        until("what was permitted serves", LONG, async || {
            let plugin = self.read().await;
            let is_there = plugin["revision"] == offer["revision"] && plugin["ready"] == true;
            if is_there { Ok(()) } else { Err(plugin.to_string()) }
        })
        .await;
    }

    /// Asked again by somebody who does not know that it was done, it is refused: it serves already.
    async fn rolls_back(&mut self, to: &Value) {
        let wanted = json!({"revision": to["revision"]});
        let path = format!("/{NAME}/rollback");
        let (status, said) = self.answer(self.deaths.writing, Method::POST, &path, &wanted).await;
        let is_done = said.to_string().contains("no such earlier revision");
        assert!((200..300).contains(&status) || is_done, "{status} {said}");
        self.serves(to).await;
    }

    /// Asked again, it may be gone already. Nothing of it is left, and its name is free.
    async fn removes(&mut self) {
        let path = format!("/{NAME}");
        let (status, said) =
            self.answer(self.deaths.writing, Method::DELETE, &path, &Value::Null).await;
        assert!((200..300).contains(&status) || status == 404, "{status} {said}");
        until("nothing of it is left", LONG, async || {
            let mut left = Vec::new();
            for kind in KINDS {
                let all = objects(&self.release.sandbox, kind, "").await;
                let names = all.iter().filter_map(|it| it["metadata"]["name"].as_str());
                left.extend(names.filter(|it| it.starts_with(NAME)).map(str::to_owned));
            }
            if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
        })
        .await;
    }

    async fn read(&self) -> Value {
        until("the plugin is read", LONG, async || {
            match self.way.ask(Method::GET, &format!("/v1/plugins/{NAME}"), None).await? {
                (200, plugin) => Ok(plugin),
                (status, said) => Err(format!("{status} {said}")),
            }
        })
        .await
    }

    /// The lines of the answer of its tool, once the app and the plugin are there again.
    async fn says(&self) -> String {
        let Release { client, address, token, .. } = &self.release;
        let path = format!("{address}/v1/plugins/{NAME}/tools/say/run");
        until("its tool is run", LONG, async || {
            let run = client.post(&path).bearer_auth(token).json(&json!({"parameters": {}}));
            let answer = run.timeout(LONG).send().await.map_err(|error| format!("{error:?}"))?;
            let status = answer.status().as_u16();
            let lines = answer.text().await.map_err(|error| format!("{status}: {error:?}"))?;
            if status == 200 { Ok(lines) } else { Err(format!("{status} {lines}")) }
        })
        .await
    }

    async fn comes_to_say(&self, wanted: &[&str]) {
        until(&format!("it says {wanted:?}"), LONG, async || {
            let said = self.says().await;
            if wanted.iter().all(|it| said.contains(it)) { Ok(()) } else { Err(said) }
        })
        .await;
    }
}
