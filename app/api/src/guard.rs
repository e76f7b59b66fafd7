//! What every request passes before its handler: address, credentials, origin, scope; and the
//! headers that every answer carries.

use crate::{
    app::App,
    auth, path,
    problem::{Kind, Problem},
    routes::lookup::{Access, Listener, RouteMatch},
};
use axum::{
    http::{HeaderMap, HeaderValue, Method, header, request::Parts},
    response::Response,
};
use famulus_core::runner::Origin;
use std::sync::Arc;
use tokio::time::Instant;

/// Lets a request through, with its caller in the extensions.
pub(crate) async fn admit(
    app: &Arc<App>,
    parts: &mut Parts,
    from: &Origin,
    listener: Listener,
) -> Result<(), Problem> {
    if let Some(what) = auth::credential_in(&parts.uri) {
        return Err(Problem::new(
            Kind::CredentialsInUrl,
            format!("the address holds {what}, which logs and histories would keep"),
            "send the token in the Authorization header; if it was a real one, revoke it and make another",
        ));
    }
    let found = app.routes.find(listener, &parts.method, parts.uri.path());
    match &found {
        RouteMatch::Route(Access::Public) => return Ok(()),
        RouteMatch::WrongMethod { allow, access: Access::Public } => {
            return Err(wrong_method(&parts.method, allow.clone()));
        }
        RouteMatch::Route(_) | RouteMatch::WrongMethod { .. } | RouteMatch::Nothing => {}
    }
    let caller = authenticate(app, &parts.headers, from).await?;
    if changes_something(&parts.method) {
        same_origin(&parts.headers)?;
    }
    match found {
        RouteMatch::Route(Access::Owner) if !caller.is_owner() => {
            return Err(Problem::new(
                Kind::OwnerOnly,
                "this needs a token of the owner with the scope `owner`",
                "use the owner's token, which `famulus token` shows on the server",
            ));
        }
        RouteMatch::Route(_) => {}
        RouteMatch::WrongMethod { allow, .. } => return Err(wrong_method(&parts.method, allow)),
        RouteMatch::Nothing => {
            return Err(Problem::new(
                Kind::NoRoute,
                "nothing is served under this path",
                "see GET /openapi.json for what there is",
            ));
        }
    }
    if !path::is_text(parts.uri.path()) {
        return Err(Problem::bad("the path is not text", "encode it as UTF-8"));
    }
    parts.extensions.insert(caller);
    Ok(())
}

fn wrong_method(method: &Method, allow: String) -> Problem {
    let detail = format!("{method} is not possible here");
    let remedy = format!("use one of: {allow}");
    Problem { allow: Some(allow), ..Problem::new(Kind::Method, detail, remedy) }
}

async fn authenticate(
    app: &Arc<App>,
    headers: &HeaderMap,
    from: &Origin,
) -> Result<Arc<famulus_core::person::Caller>, Problem> {
    let now = Instant::now();
    let hash = auth::token_hash(headers);
    let known = hash.and_then(|hash| app.callers.recall(&hash, now));
    let caller = match (known, hash) {
        (Some(caller), _) => Some(caller),
        // An address that sent too many wrong ones is not even looked up.
        (None, Some(hash)) => {
            app.failures.check(from, now).map_err(too_many_failures)?;
            app.callers.look_up(&app.api.store, hash, now).await?
        }
        (None, None) => None,
    };
    let Some(caller) = caller else {
        app.failures.take(from, now).map_err(too_many_failures)?;
        return Err(auth::unauthorized());
    };
    app.requests.take(&caller.token, now).map_err(|seconds| {
        Problem::new(
            Kind::TooManyRequests,
            "this token sends more requests than `api.requests_per_second` allows",
            "slow down, or raise the limit in the configuration",
        )
        .after(seconds)
    })?;
    Ok(caller)
}

fn too_many_failures(seconds: u32) -> Problem {
    Problem::new(
        Kind::TooManyFailures,
        "too many wrong credentials came from this address",
        format!("wait {seconds} s, then send the right token; `famulus token` shows it"),
    )
    .after(seconds)
}

fn changes_something(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// A browser that remembers HTTP Basic would send it along for any page: what another site's page
/// asks for is refused.
fn same_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let refuse = || {
        Err(Problem::new(
            Kind::CrossOrigin,
            "the request was made by a page of another site",
            "call the API from its own address, or from a program that sends no Origin",
        ))
    };
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return refuse();
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, o)| o);
    match (origin, host) {
        (Some(origin), Some(host)) if origin.eq_ignore_ascii_case(host) => Ok(()),
        (Some(_) | None, _) => refuse(),
    }
}

/// What every answer says to a browser.
pub(crate) const HEADERS: [(&str, &str); 6] = [
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Adds [`HEADERS`], except where a handler was stricter.
pub(crate) fn secure(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_sites_page_is_refused() {
        let check = |pairs: &[(&'static str, &str)], expected: bool| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_str(value).unwrap());
            }
            assert_eq!(same_origin(&headers).is_ok(), expected, "{pairs:?}");
        };
        check(&[("host", "a:3000")], true);
        check(&[("host", "a:3000"), ("origin", "http://a:3000")], true);
        check(&[("host", "A:3000"), ("origin", "http://a:3000")], true);
        check(&[("host", "a:3000"), ("origin", "http://b:3000")], false);
        check(&[("host", "a:3000"), ("origin", "http://sub.a:3000")], false);
        check(&[("host", "a:3000"), ("origin", "null")], false);
        check(&[("origin", "http://a:3000")], false);
        check(&[("host", "a:3000"), ("sec-fetch-site", "cross-site")], false);
    }
}
