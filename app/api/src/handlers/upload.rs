//! `POST /api/upload`: a file as a message, as the helpers of bridges send it.

use crate::{
    app::App,
    body::Authenticated,
    handlers::{Answer, messages, ok},
    problem::Problem,
};
use axum::{
    body::Body,
    extract::{
        DefaultBodyLimit, FromRequest as _, Multipart, Request, State,
        multipart::{Field, MultipartError},
    },
};
use bytes::Bytes;
use famulus_core::{
    blob::{BlobRef, Blobs as _},
    ids::{MessageId, TurnId},
    inbound::{Attachment, Meeting, Source},
    sent::Sent,
    visible::{FILE_NAME, file_name},
};
use famulus_errors::causes;
use famulus_reception::media_type;
use famulus_store::MAIN_AGENT;
use futures::StreamExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use std::{io, sync::Arc};

/// Bytes of a name of so many characters.
const FIELD: usize = 4 * FILE_NAME;
/// What a head can hold; line breaks are escaped there.
const NAMES: &str = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]*$";
/// Parts that are looked at.
const PARTS: usize = 16;

/// The form, for the description. Other parts are left out; no name of a part has a control character.
#[derive(JsonSchema)]
#[schemars(extend("propertyNames" = {"pattern": NAMES}))]
#[expect(dead_code, reason = "describes what `upload` reads")]
pub(crate) struct UploadForm {
    #[schemars(extend("format" = "binary"))]
    file: String,
    /// How the file is shown; the name that it comes with unless told.
    #[schemars(with = "String", length(max = FILE_NAME))]
    #[serde(default)]
    filename: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Uploaded {
    message: &'static str,
    /// The name under which the file is shown.
    filename: String,
    message_id: Option<MessageId>,
    turn_id: Option<TurnId>,
}

pub(crate) async fn upload(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    request: Request,
) -> Answer {
    let key = messages::key(request.headers())?;
    let min_rate = app.api.config.min_rate();
    let mut request = request.map(|body| Body::from_stream(min_rate.pieces(body)));
    // The file has a limit of its own.
    DefaultBodyLimit::disable().apply(&mut request);
    let mut parts = Multipart::from_request(request, &app).await.map_err(|rejection| {
        Problem::bad(rejection.body_text(), "send multipart/form-data with a part named `file`")
    })?;
    let mut name: Option<String> = None;
    let mut file: Option<(BlobRef, String)> = None;
    for _ in 0..PARTS {
        let Some(field) = parts.next_field().await.map_err(|error| malformed(&error))? else {
            break;
        };
        match field.name() {
            Some("file") if file.is_none() => {
                let given = field.file_name().unwrap_or_default().to_owned();
                let declared = media_type(field.content_type().unwrap_or_default());
                let limit = app.api.config.upload_bytes;
                let bytes = pieces(field).boxed();
                let blob = app.api.store.put(caller.person.id, &declared, limit, bytes).await?;
                file = Some((blob, given));
            }
            Some("filename") => name = Some(short(field).await?),
            Some(_) | None => {}
        }
    }
    let Some((blob, given)) = file else {
        return Err(Problem::bad(
            "the form has no part named `file`",
            "send the file as the part `file`",
        ));
    };
    let filename = file_name(name.as_deref().unwrap_or(&given));
    let sent = Sent {
        text: String::new(),
        attachments: vec![Attachment { blob, name: filename.clone() }],
        sender: None,
        source: Source::Upload,
        conversation: None,
        agent: MAIN_AGENT,
        key,
        meeting: Meeting::Steer,
        continues: None,
    };
    let accepted = messages::accept(&app, &caller, sent).await?;
    ok(&Uploaded {
        message: "The file was stored and handed to the assistant.",
        filename,
        message_id: accepted.message_id,
        turn_id: accepted.turn_id,
    })
}

fn pieces(field: Field<'_>) -> impl futures::Stream<Item = io::Result<Bytes>> + Send + '_ {
    futures::stream::unfold(Some(field), async |field| {
        let mut field = field?;
        match field.chunk().await {
            Ok(Some(piece)) => Some((Ok(piece), Some(field))),
            Ok(None) => None,
            Err(error) if is_late(&error) => Some((Err(io::ErrorKind::TimedOut.into()), None)),
            Err(error) => Some((Err(io::Error::other(error)), None)),
        }
    })
}

async fn short(mut field: Field<'_>) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    while let Some(piece) = field.chunk().await.map_err(|error| malformed(&error))? {
        if bytes.len() + piece.len() > FIELD {
            return Err(too_long());
        }
        bytes.extend_from_slice(&piece);
    }
    let text = String::from_utf8_lossy(&bytes);
    if text.chars().count() > FILE_NAME {
        return Err(too_long());
    }
    Ok(text.into_owned())
}

fn too_long() -> Problem {
    Problem::bad(
        format!("the field `filename` has more than {FILE_NAME} characters"),
        "shorten the name",
    )
}

fn malformed(error: &MultipartError) -> Problem {
    if is_late(error) {
        return Problem::too_slow();
    }
    Problem::bad(
        format!("the form is malformed: {}", error.body_text()),
        "send it again as multipart/form-data",
    )
}

/// Whether the form ended because its body came too slowly.
fn is_late(error: &MultipartError) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::TimedOut)
}
