//! Where a call's time goes: its parts, as the app counts them; and of a call from zero the way of its
//! Pod, by the API server's log of requests.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use famulus_cluster_tests::figures::percentile;
use famulus_cluster_tests::release::Release;
use jiff::Timestamp;
use serde_json::Value;

/// The parts that the app tells, in their order.
const PARTS: [&str; 4] = ["found", "dialled", "started", "ended"];

/// Of a call from zero, in its order.
const WAY: [&str; 6] = [
    "the app asks for a runner",
    "the operator changes the Deployment",
    "Kubernetes makes the Pod",
    "Kubernetes gives it a node",
    "node and runner, until it answers",
    "the call itself",
];

/// What the app has counted of all calls: seconds and how many, by part.
pub(crate) struct Counted([(f64, f64); PARTS.len()]);

impl Counted {
    pub(crate) async fn now(release: &Release) -> Self {
        let metrics = release.metrics().await;
        let of = |what: &str, part: &str| {
            let (name, label) = (format!("famulus_sandbox_seconds_{what}"), format!("\"{part}\""));
            let mut lines = metrics.lines();
            let line = lines.find(|line| line.starts_with(&name) && line.contains(&label));
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
        };
        Self(PARTS.map(|part| (of("sum", part), of("count", part))))
    }

    /// The mean of each part since then.
    pub(crate) fn since(&self, before: &Self) -> [Duration; PARTS.len()] {
        let mut means = [Duration::ZERO; PARTS.len()];
        for ((mean, now), before) in means.iter_mut().zip(&self.0).zip(&before.0) {
            let count = now.1 - before.1;
            *mean = Duration::from_secs_f64((now.0 - before.0) / count.max(1.0));
        }
        means
    }

    /// The means since then, for people.
    pub(crate) fn told_since(&self, before: &Self) -> String {
        let means = self.since(before);
        let means = PARTS.iter().zip(means).map(|(part, mean)| format!("{part} {mean:.2?}"));
        means.collect::<Vec<_>>().join(", ")
    }
}

/// The ways of many calls from zero.
#[derive(Default)]
pub(crate) struct Ways([Vec<Duration>; WAY.len()]);

impl Ways {
    /// One call of this plugin, which was the only one of it: when it was sent, how long it took to
    /// find a runner, and when it had ended. Its own way is told.
    pub(crate) fn add(
        &mut self,
        plugin: &str,
        sent: Timestamp,
        found: Duration,
        ended: Timestamp,
    ) -> String {
        let log = PathBuf::from(std::env::var("FAMULUS_TEST_NODE").unwrap()).join("audit.log");
        let log = fs::read_to_string(log).unwrap();
        // The last lines hold it, and what comes before is long.
        let lines = log.lines().rev().take(2_000);
        let mut entries: Vec<(Timestamp, Value)> = lines
            .filter_map(|line| {
                let entry: Value = serde_json::from_str(line).ok()?;
                let at: Timestamp = entry["requestReceivedTimestamp"].as_str()?.parse().ok()?;
                (sent <= at && at <= ended).then_some((at, entry))
            })
            .collect();
        entries.sort_by_key(|(at, _)| *at);
        let first = |who: &str, verb: &str, resource: &str, part: &str| {
            let is_it = |(_, entry): &&(Timestamp, Value)| {
                let (object, user) = (&entry["objectRef"], entry["user"]["username"].as_str());
                let is_ours = object["name"].as_str().is_none_or(|name| name.contains(plugin));
                user.is_some_and(|user| user.contains(who))
                    && entry["verb"] == verb
                    && object["resource"] == resource
                    && object["subresource"].as_str().unwrap_or_default() == part
                    && is_ours
            };
            entries.iter().find(is_it).map(|(at, _)| *at)
        };
        let found = sent.checked_add(found).unwrap();
        let steps = [
            first("famulus-app", "patch", "plugins", "scale"),
            first("famulus-operator", "patch", "deployments", ""),
            first("", "create", "pods", ""),
            first("", "create", "pods", "binding"),
            Some(found),
            Some(ended),
        ];
        let mut before = sent;
        let mut told = Vec::new();
        for ((step, name), all) in steps.into_iter().zip(WAY).zip(&mut self.0) {
            let Some(at) = step else { continue };
            let took = Duration::try_from(at.duration_since(before)).unwrap_or_default();
            told.push(format!("{name} {took:.0?}"));
            all.push(took);
            before = at;
        }
        told.join(", ")
    }

    /// The median of each step.
    pub(crate) fn told(&mut self) -> String {
        let steps = WAY.iter().zip(&mut self.0).filter(|(_, all)| !all.is_empty());
        let steps = steps.map(|(name, all)| format!("{name} {:.0?}", percentile(all, 0.5)));
        steps.collect::<Vec<_>>().join(", ")
    }
}
