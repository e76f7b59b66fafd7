//! Recordings, from the provider's side: `audio/transcriptions` and `audio/speech`.
//!
//! The words of a recording are its bytes, so that whoever tests knows what is to be heard. Refused
//! with 400, as strict providers do: a form without a model or without a file whose name ends in a
//! known format, bytes that are no recording, and speech without its fields.

use super::script::{Script, Step};
use axum::body::Body;
use axum::extract::{FromRequest as _, Multipart, Request};
use axum::http::{HeaderMap, header};
use serde_json::{Value, json};

/// What the larger providers take.
const FORMATS: [&str; 9] = ["flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm"];

/// The text of a recording, and how it was counted.
pub(super) async fn transcription(headers: &HeaderMap, body: Vec<u8>) -> Result<Script, String> {
    let mut request = Request::new(Body::from(body));
    *request.headers_mut() = headers.clone();
    request.headers_mut().remove(header::CONTENT_LENGTH);
    let mut form = Multipart::from_request(request, &())
        .await
        .map_err(|error| format!("this is no form: {error}"))?;
    let (mut model, mut recording) = (None, None);
    while let Some(field) = form.next_field().await.map_err(|error| error.to_string())? {
        let name = field.name().unwrap_or_default().to_owned();
        let file = field.file_name().map(ToOwned::to_owned);
        let bytes = field.bytes().await.map_err(|error| error.to_string())?;
        match (name.as_str(), file) {
            ("model", None) => model = String::from_utf8(bytes.to_vec()).ok(),
            ("response_format", None) if bytes.as_ref() == b"json" => {}
            ("file", Some(file)) => recording = Some((file, bytes)),
            (other, _) => return Err(format!("the field `{other}` is not known")),
        }
    }
    let model = model.filter(|model| !model.is_empty());
    let _model = model.ok_or("`model` is missing")?;
    let (file, bytes) = recording.ok_or("`file` is missing")?;
    let ending = file.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
    if !FORMATS.contains(&ending) {
        return Err(format!("`{ending}` is no format that is taken here"));
    }
    let words = String::from_utf8(bytes.to_vec()).map_err(|_| "the recording cannot be read")?;
    let counted = words.split_whitespace().count();
    let usage = json!({"type": "tokens", "input_tokens": bytes.len(), "output_tokens": counted});
    Ok(Script::json(200, &json!({"text": words, "usage": usage})))
}

/// A recording of a text.
pub(super) fn speech(body: &[u8]) -> Result<Script, String> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
    let field = |name: &str| {
        let text = value[name].as_str().filter(|text| !text.is_empty());
        text.ok_or_else(|| format!("`{name}` is missing"))
    };
    let (input, _model, _voice) = (field("input")?, field("model")?, field("voice")?);
    let kind = match value["response_format"].as_str().unwrap_or("mp3") {
        "opus" => "audio/opus",
        "mp3" => "audio/mpeg",
        "aac" => "audio/aac",
        "flac" => "audio/flac",
        "wav" => "audio/wav",
        other => return Err(format!("`{other}` is no format")),
    };
    let words = input.split_inclusive(' ');
    let steps = words.map(|word| Step::Send(word.to_owned().into())).collect();
    Ok(Script { status: 200, headers: vec![("content-type", kind.to_owned())], steps })
}
