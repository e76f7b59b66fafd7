//! Whether an answer has a status that the OpenAPI document lists for what was asked.

use famulus_api::openapi;
use reqwest::Method;
use serde_json::Value;
use std::sync::LazyLock;

static PATHS: LazyLock<Value> = LazyLock::new(|| {
    let mut document: Value = serde_json::from_str(openapi::document()).unwrap();
    document["paths"].take()
});

/// What the guard says before it looks for a route.
const GUARD: [u16; 4] = [400, 401, 403, 429];

/// Fails the test when a caller who reads the document would not expect this answer.
pub(crate) fn check(method: &Method, path: &str, status: u16) {
    let served = PATHS.as_object().unwrap().iter().find(|(pattern, _)| fits(pattern, path));
    let Some((pattern, operations)) = served else {
        assert!(status == 404 || GUARD.contains(&status), "{status}: no {path} in the document");
        return;
    };
    let Some(operation) = operations.get(method.as_str().to_lowercase()) else {
        assert!(status == 405 || GUARD.contains(&status), "{status}: no {method} for {pattern}");
        return;
    };
    let expected = operation["responses"].get(status.to_string());
    assert!(expected.is_some(), "{method} {pattern} answered {status}: {}", operation["responses"]);
}

fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (pattern.split('/'), path.split('/'));
    pattern.clone().count() == path.clone().count()
        && pattern.zip(path).all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
}
