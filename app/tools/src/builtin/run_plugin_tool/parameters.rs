//! Files in parameters: what the model names becomes a reference, and the bytes stay where they are.
//!
//! A model sees a stored file as `[file: NAME (TYPE, N bytes), id ID]`, or above a text as `Attached
//! file: NAME (TYPE, N bytes), id ID`. It gives its id, or all of that, or `{"id": …, "filename": …}`.

use crate::tool::ToolError;
use famulus_core::blob::{BlobError, BlobRef, Blobs};
use famulus_core::ids::{BlobId, PersonId};
use famulus_core::plugin::ToolDescription;
use serde_json::{Map, Value, json};

/// Files of one call, over all items.
const FILES: usize = 64;
/// Characters of an id.
const ID: usize = 36;

/// The parameters with every file as `{"filename": …, "upload": N}`, and the files in that order.
pub(super) async fn with_files(
    parameters: &Value,
    tool: &ToolDescription,
    blobs: &dyn Blobs,
    person: PersonId,
) -> Result<(Value, Vec<BlobRef>), ToolError> {
    let mut files = Vec::new();
    let names: Vec<&str> = tool.file_parameters().collect();
    let mut parameters = parameters.clone();
    let items: Vec<&mut Value> = if let Value::Array(items) = &mut parameters {
        items.iter_mut().collect()
    } else {
        vec![&mut parameters]
    };
    for item in items {
        let Value::Object(item) = item else {
            return Err(ToolError::call(
                "`parameters` must be an object, or an array of objects: one run for each",
            ));
        };
        refuse_uploads(item)?;
        for name in &names {
            let Some(value) = item.get_mut(*name) else { continue };
            if files.len() >= FILES {
                return Err(ToolError::call(format!("a call takes at most {FILES} files")));
            }
            let (blob, filename) = find(name, value, blobs, person).await?;
            *value = json!({ "filename": filename, "upload": files.len() });
            files.push(blob);
        }
    }
    Ok((parameters, files))
}

/// Below the port a value of this shape is a file. Only this module may make one.
fn refuse_uploads(item: &Map<String, Value>) -> Result<(), ToolError> {
    let is_upload = |value: &Value| {
        value.as_object().is_some_and(|fields| {
            fields.len() == 2
                && fields.contains_key("filename")
                && (fields.contains_key("upload") || fields.contains_key("data"))
        })
    };
    match item.iter().find(|(_, value)| is_upload(value)) {
        None => Ok(()),
        Some((name, _)) => Err(ToolError::call(format!(
            "`{name}` holds a file in a form that is not taken here; give the id of a stored file"
        ))),
    }
}

async fn find(
    parameter: &str,
    value: &Value,
    blobs: &dyn Blobs,
    person: PersonId,
) -> Result<(BlobRef, String), ToolError> {
    let (text, given) = match value {
        Value::String(text) => (text.as_str(), shown_name(text)),
        Value::Object(fields) => {
            let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
            (text("id"), Some(text("filename")).filter(|name| !name.is_empty()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => ("", None),
    };
    let Some(id) = last_id(text) else {
        return Err(ToolError::call(format!(
            "`{parameter}` is a file: give the id of a stored file, as it stands behind `id` where \
             the file is named in this conversation"
        )));
    };
    // The bytes are not read: the reference is what is wanted.
    match blobs.get(person, id).await {
        Ok((blob, _bytes)) => {
            let name = given.map_or_else(|| usual_name(&blob), safe_name);
            Ok((blob, name))
        }
        Err(BlobError::Missing { .. }) => Err(ToolError::call(format!(
            "`{parameter}` names the file {id}, which is not stored; name one of this conversation"
        ))),
        Err(error @ (BlobError::TooLarge { .. } | BlobError::Cut(_) | BlobError::Store(_))) => {
            Err(ToolError::call(format!("`{parameter}`: {error}; nothing was run, try again")))
        }
    }
}

/// The last id in a text: a file's name before it may look like one, too.
fn last_id(text: &str) -> Option<BlobId> {
    (0..text.len()).rev().find_map(|start| text.get(start..start + ID)?.parse().ok())
}

/// The name in `file: NAME (TYPE, N bytes), id ID`, with whatever stands around it.
fn shown_name(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("file: ")?;
    let (name, _) = rest.rsplit_once(" (")?;
    Some(name)
}

/// One component of a path, without what cannot be seen.
fn safe_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown: String = last.chars().filter(|c| !c.is_control()).take(100).collect();
    if shown.trim_matches(['.', ' ']).is_empty() { "file".to_owned() } else { shown }
}

fn usual_name(blob: &BlobRef) -> String {
    let ending = match blob.mime.as_str() {
        "image/png" => ".png",
        "image/jpeg" => ".jpg",
        "image/gif" => ".gif",
        "image/webp" => ".webp",
        "application/pdf" => ".pdf",
        "application/json" => ".json",
        "text/plain" => ".txt",
        "text/csv" => ".csv",
        "audio/mpeg" => ".mp3",
        "audio/wav" => ".wav",
        _ => "",
    };
    format!("file{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_id_however_it_is_quoted() {
        let id = BlobId::new();
        let check = |text: String, expected: Option<BlobId>, name: Option<&str>| {
            assert_eq!((last_id(&text), shown_name(&text)), (expected, name), "{text}");
        };
        check(id.to_string(), Some(id), None);
        check(
            format!("[file: a (b).png (image/png, 3 bytes), id {id}]"),
            Some(id),
            Some("a (b).png"),
        );
        let other = BlobId::new();
        check(
            format!("Attached file: {other} (x, 3 bytes), id {id}"),
            Some(id),
            Some(&other.to_string()),
        );
        check("photo.png".into(), None, None);
        check("ä".repeat(40), None, None);
    }

    #[test]
    fn a_name_is_never_a_path() {
        let check = |name, expected| assert_eq!(safe_name(name), expected);
        check("../../etc/passwd", "passwd");
        check("a\nb.txt", "ab.txt");
        check("..", "file");
        check("", "file");
    }
}
