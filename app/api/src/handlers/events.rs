//! Event streams: the request is answered by [`crate::sse`], on a socket of its own.

use crate::{
    app::App,
    body::{Authenticated, QueryParams},
    handlers::{Answer, conversations},
    problem::{Kind, Problem},
    serve::Takeover,
    sse::Source,
};
use axum::{
    Extension,
    extract::{Path, State},
    http::HeaderMap,
};
use famulus_core::event::{EventId, NotAnEventId};
use famulus_viewers::{PersonViewer, Viewer, ViewerSlot};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct EventsQuery {
    /// The id of the last event that was received, where the header `Last-Event-ID` cannot be set.
    #[schemars(extend("pattern" = OPTIONAL_PLACE))]
    after: Option<String>,
}

/// A place in a stream, or nothing.
pub(crate) const OPTIONAL_PLACE: &str = "^([0-9]{1,18}-[0-9]{1,18})?$";

pub(crate) async fn conversation(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    QueryParams(asked): QueryParams<EventsQuery>,
    headers: HeaderMap,
    Extension(takeover): Extension<Takeover>,
) -> Answer {
    let after = after(&headers, asked.after.as_deref())?;
    let slot = slot(&app)?;
    let id = conversations::existing(&app, &caller.person, &id).await?;
    let table = Arc::new(app.api.store.clone());
    let (viewer, reset) = Viewer::attach(slot, table, caller.person.id, id, after).await?;
    Ok(takeover.take(Source::Conversation { viewer: Box::new(viewer), reset }).await)
}

pub(crate) async fn person(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Extension(takeover): Extension<Takeover>,
) -> Answer {
    let viewer = PersonViewer::attach(slot(&app)?, caller.person.id);
    Ok(takeover.take(Source::Person(Box::new(viewer))).await)
}

fn slot(app: &App) -> Result<ViewerSlot, Problem> {
    app.api.hub.take_place().ok_or_else(|| {
        Problem::new(
            Kind::TooManyViewers,
            "as many event streams are open as `api.viewer_limit` allows",
            "close some, try again later, or raise the limit",
        )
        .after(5)
    })
}

/// The header comes first: a client that reconnects repeats the address, but not the place.
fn after(headers: &HeaderMap, asked: Option<&str>) -> Result<Option<EventId>, Problem> {
    let header = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?"));
    let (header, asked) = (header.map(place_of).transpose()?, asked.map(place_of).transpose()?);
    Ok(header.or(asked).flatten().filter(|id| *id > EventId::START))
}

fn place_of(text: &str) -> Result<Option<EventId>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error: NotAnEventId| {
        Problem::bad(error.to_string(), "leave it out to begin with the live turn")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_header_is_the_place() {
        let check = |header: Option<&'static str>, asked, expected: Result<Option<i64>, ()>| {
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert("last-event-id", HeaderValue::from_static(header));
            }
            let found = after(&headers, asked).map(|id| id.map(|id| id.number)).map_err(|_| ());
            assert_eq!(found, expected, "{header:?} {asked:?}");
        };
        check(None, None, Ok(None));
        check(Some("5-7"), Some("5-3"), Ok(Some(7)));
        check(None, Some("5-3"), Ok(Some(3)));
        check(Some(""), None, Ok(None));
        check(Some("0-0"), None, Ok(None));
        check(Some("x"), None, Err(()));
        check(Some("5-7"), Some("x"), Err(()));
    }
}
