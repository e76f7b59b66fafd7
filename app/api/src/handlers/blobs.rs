//! Files: streamed in and out, never held whole.

use crate::{
    app::App,
    body::{Authenticated, announced, drain, id, too_large},
    handlers::{Answer, json},
};
use axum::{
    body::Body,
    extract::{Path, Request, State},
    http::{HeaderValue, StatusCode, header},
    response::IntoResponse,
};
use famulus_core::{blob::Blobs as _, ids::BlobId};
use famulus_reception::media_type;
use futures::{StreamExt as _, TryStreamExt as _};
use std::sync::Arc;

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    request: Request,
) -> Answer {
    let limit = app.api.config.blob_bytes;
    let declared = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map_or_else(|| media_type(""), media_type);
    let announced = announced(request.headers());
    let stream = app.api.config.min_rate().pieces(request.into_body());
    if announced.is_some_and(|length| length > limit) {
        drain(stream).await;
        return Err(too_large(limit, "api.blob_bytes"));
    }
    let blob = app.api.store.put(caller.person.id, &declared, limit, stream.boxed()).await?;
    json(StatusCode::CREATED, &blob)
}

/// Whatever the file says it is, a browser neither runs nor shows it.
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(blob): Path<String>,
) -> Answer {
    let blob = id::<BlobId>("file", &blob, "the answer of POST /v1/blobs")?;
    let (blob, stream) = app.api.store.get(caller.person.id, blob).await?;
    let media = HeaderValue::try_from(blob.mime.as_str())
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (header::CONTENT_TYPE, media),
        (header::CONTENT_LENGTH, HeaderValue::from(blob.size)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; sandbox; frame-ancestors 'none'"),
        ),
    ];
    let body = Body::from_stream(stream.map_err(std::io::Error::other));
    Ok((StatusCode::OK, headers, body).into_response())
}
