//! The API server fails, and what was begun is finished later.

use std::time::Duration;

use hyper::Method;
use serde_json::json;

use crate::bench::{Bench, revision};
use crate::cluster::How;

#[tokio::test]
async fn whatever_fails_is_told_by_kind_and_done_at_the_next_look() {
    let failures = [
        (How::Status(409, "Conflict"), "conflict"),
        (How::Status(410, "Expired"), "gone"),
        (How::Status(429, "TooManyRequests"), "throttled"),
        (How::Status(403, "Forbidden"), "forbidden"),
        (How::Status(422, "Invalid"), "invalid"),
        (How::Status(500, "InternalError"), "server"),
        (How::Status(504, "Timeout"), "timeout"),
    ];
    let places = [
        (Method::GET, "secrets/weather-mounted"),
        (Method::PATCH, "serviceaccounts/"),
        (Method::PATCH, "persistentvolumeclaims/"),
        (Method::PATCH, "secrets/weather-mounted"),
        (Method::PATCH, "deployments/"),
        (Method::PATCH, "plugins/weather/status"),
    ];
    for (how, kind) in failures {
        for (method, path) in &places {
            let bench = Bench::new();
            bench.plugin(json!({}));
            bench.cluster.fail(method.clone(), path, how);
            let error = bench.try_reconcile().await.expect_err(path);
            assert_eq!(error.kind().name(), kind, "{path}");
            bench.cluster.writes();
            bench.settle().await;
            assert_eq!(bench.ready().1, "Building", "{path}");
            bench.build_ends(&revision('a'), &[]);
            bench.settle().await;
            assert_eq!(bench.status()["rendered"], 2, "{path}");
        }
    }
}

#[tokio::test]
async fn a_build_whose_beginning_or_end_fails_is_begun_and_ended_later() {
    let places = [
        (Method::PATCH, "secrets/weather-build"),
        (Method::PATCH, "jobs/"),
        (Method::DELETE, "jobs/"),
        (Method::DELETE, "secrets/weather-build"),
    ];
    for (method, path) in places {
        let bench = Bench::new();
        bench.plugin(json!({}));
        bench.cluster.fail(method.clone(), path, How::Status(500, "InternalError"));
        let mut ended = false;
        for _ in 0..12 {
            let _failed = bench.try_reconcile().await;
            if !ended && !bench.cluster.names("jobs").is_empty() {
                bench.build_ends(&revision('a'), &[]);
                ended = true;
            }
        }
        bench.cluster.writes();
        bench.settle().await;
        assert_eq!(bench.ready().1, "Idle", "{method} {path}");
        assert_eq!(bench.cluster.names("jobs"), [""; 0], "{method} {path}");
        assert_eq!(bench.cluster.names("secrets"), ["weather-mounted"], "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_silent_is_not_waited_for_forever() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.cluster.fail(Method::PATCH, "deployments/", How::Silence);
    let waited = tokio::time::timeout(Duration::from_mins(1), bench.try_reconcile()).await;
    assert!(waited.is_err());
    // Whatever was half done is found as it is.
    bench.cluster.writes();
    bench.settle().await;
    assert_eq!(bench.ready().1, "Building");
}

/// Two operators for a moment: the number of what is mounted must not be given twice.
#[tokio::test]
async fn a_record_that_somebody_else_wrote_meanwhile_is_read_anew() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"source": {"git": {"url": "git://h/other"}}}));
    bench.settle().await;
    bench.build_ends(&revision('b'), &[]);
    bench.cluster.fail(Method::PATCH, "secrets/weather-mounted", How::Status(409, "Conflict"));
    let error = bench.try_reconcile().await.unwrap_err();
    assert_eq!(error.kind().name(), "conflict");
    assert_eq!(bench.status()["rendered"], 2, "nothing is told that is not so");
    bench.cluster.writes();
    bench.settle().await;
    assert_eq!(bench.status()["rendered"], 3);
}

/// What the status says already is no transition any more, and is told nonetheless.
#[tokio::test(start_paused = true)]
async fn a_transition_is_told_whatever_answer_is_lost() {
    let refused = How::Status(500, "InternalError");
    let lost: [(&[How], _, _); 4] = [
        (&[refused], Method::POST, "events"),
        (&[refused, How::Silence, refused], Method::POST, "events"),
        (&[How::Late(504, "Timeout")], Method::PATCH, "plugins/weather/status"),
        (&[How::Late(500, "InternalError")], Method::POST, "events"),
    ];
    for (answers, method, path) in lost {
        let bench = Bench::new();
        bench.plugin(json!({}));
        bench.settle().await;
        bench.build_fails("ManifestInvalid", "manifest.toml: unknown field `permissons`");
        for answer in answers {
            bench.cluster.fail(method.clone(), path, *answer);
        }
        let _failed = bench.try_reconcile().await;
        bench.cluster.writes();
        bench.settle().await;
        assert_eq!(bench.ready().1, "ManifestInvalid", "{method} {path}");
        let told = bench.told("ManifestInvalid");
        assert!(!told.is_empty(), "{method} {path}: nothing is told");
        assert!(told.iter().all(|it| it.contains("permissons")), "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_refused_keeps_nothing_waiting() {
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid")] {
        let bench = Bench::new();
        bench.plugin(json!({}));
        bench.settle().await;
        bench.build_fails("ManifestInvalid", "manifest.toml: unknown field `permissons`");
        bench.cluster.fail(Method::POST, "events", How::Status(code, reason));
        let before = tokio::time::Instant::now();
        bench.cluster.writes();
        bench.settle().await;
        assert_eq!(bench.ready().1, "ManifestInvalid", "{code}");
        assert_eq!(before.elapsed(), Duration::ZERO, "{code}");
    }
}
