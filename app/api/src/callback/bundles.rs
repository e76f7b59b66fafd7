//! Revisions: described and bundled by the container that made them, and read back by builds.

use super::Runner;
use crate::{
    app::App,
    body::{announced, collect, drain, parse, too_large},
    handlers::{Answer, gone, plugin_files::tar},
    problem::{Kind, Problem},
};
use axum::{
    extract::{Path, Request, State},
    http::StatusCode,
    response::IntoResponse as _,
};
use famulus_core::plugin::{BUNDLE_BYTES, Description};
use famulus_store::{BundleError, Describe};
use futures::StreamExt as _;
use std::{io, sync::Arc};

/// Bytes of a description: of a plugin with hundreds of tools.
const DESCRIPTION: usize = 1024 * 1024;

pub(super) async fn describe(
    State(app): State<Arc<App>>,
    runner: Runner,
    Path(hex): Path<String>,
    request: Request,
) -> Answer {
    let digest = digest(&hex)?;
    let whole = collect(request, DESCRIPTION, "nothing: it is fixed", &app).await?;
    let description: Description = parse(&whole.bytes)?;
    drop(whole);
    if description.plugin != runner.plugin {
        return Err(Problem::new(
            Kind::Conflict,
            format!(
                "the description is of `{}`, and the bearer of `{}`",
                description.plugin, runner.plugin
            ),
            "give the manifest the name that the Plugin has",
        ));
    }
    match app.api.store.describe(&digest, &description).await? {
        Describe::BundleNeeded => gone(),
        Describe::BundleKept => Ok(StatusCode::OK.into_response()),
        Describe::Foreign => Err(unknown(&digest)),
    }
}

pub(super) async fn keep(
    State(app): State<Arc<App>>,
    runner: Runner,
    Path(hex): Path<String>,
    request: Request,
) -> Answer {
    let digest = digest(&hex)?;
    let announced = announced(request.headers());
    let stream = app.api.config.min_rate().pieces(request.into_body());
    if announced.is_some_and(|length| length > BUNDLE_BYTES) {
        drain(stream).await;
        return Err(too_large(BUNDLE_BYTES, "nothing: leave large files out of the plugin"));
    }
    match app.api.store.keep_bundle(&runner.plugin, &digest, stream.boxed()).await {
        Ok(()) => gone(),
        Err(BundleError::Unknown(digest)) => Err(unknown(&digest)),
        Err(BundleError::TooLarge) => {
            Err(too_large(BUNDLE_BYTES, "nothing: leave large files out of the plugin"))
        }
        Err(error @ BundleError::Differs { .. }) => {
            Err(Problem::new(Kind::Unprocessable, error.to_string(), "bundle the files again"))
        }
        Err(BundleError::Cut(error)) if error.kind() == io::ErrorKind::TimedOut => {
            Err(Problem::too_slow())
        }
        Err(error @ BundleError::Cut(_)) => Err(Problem::bad(error.to_string(), "send it again")),
        Err(BundleError::Store(error)) => Err(error.into()),
    }
}

pub(super) async fn read(
    State(app): State<Arc<App>>,
    runner: Runner,
    Path(hex): Path<String>,
) -> Answer {
    let digest = digest(&hex)?;
    let found = app.api.store.bundle(&runner.plugin, &digest).await?;
    let (size, stream) = found.ok_or_else(|| unknown(&digest))?;
    Ok(tar(size, stream))
}

fn digest(hex: &str) -> Result<String, Problem> {
    let is_plain = hex.len() == 64
        && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if is_plain {
        return Ok(format!("sha256:{hex}"));
    }
    Err(Problem::bad("the path names no revision", "write 64 hexadecimal digits, in lower case"))
}

fn unknown(digest: &str) -> Problem {
    Problem::new(
        Kind::NotFound,
        format!("the revision {digest} is not known for this plugin"),
        "describe it first, then send its bundle",
    )
}
