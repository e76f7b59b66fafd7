//! Where a runner is heard: a Pod has addresses of IPv4, of IPv6, or of both.

use famulus_protocol::paths;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{BEARER, Bench, text_of};

#[tokio::test]
async fn who_calls_over_ipv4_or_ipv6_is_answered_by_one_runner() {
    let bench = Bench::new();
    bench.tool("say", json!({}), "#!/bin/sh\necho heard\n");
    let mut runner = bench.start_with(&[("LISTEN", "[::]:0")]);
    for (id, host) in [("c1", "127.0.0.1"), ("c2", "[::1]")] {
        runner.through(host);
        assert_eq!(text_of(&runner.run(id, "say", json!({})).await), "heard\n", "{host}");
    }
}

#[tokio::test]
async fn without_an_operator_nobody_is_given_what_the_plugin_keeps() {
    let bench = Bench::new();
    let runner = bench.start();
    for path in [paths::OWN_FILES, paths::CONFIGURATION] {
        for bearer in [BEARER, ""] {
            let refused = runner.keep(bearer, Method::GET, path, Vec::new()).await;
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{path} {bearer:?}");
        }
    }
}
