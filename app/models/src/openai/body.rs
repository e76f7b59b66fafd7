//! The body of a request, byte-stable: the same content gives the same bytes, keys in one order.

use super::files::Loaded;
use super::history::{AudioFormat, Entry, Piece};
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use famulus_core::message::FilePart;
use famulus_core::tool::ToolSpec;
use serde::Serialize;
use serde::ser::{SerializeSeq as _, Serializer};
use serde_json::Value;
use std::fmt;

pub(crate) fn encode(
    model: &str,
    entries: &[Entry],
    tools: &[ToolSpec],
    files: &Loaded,
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Body {
        model,
        messages: Messages { entries, files },
        tools: tools.iter().map(Tool::new).collect(),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    /// An empty list is refused by servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    stream_options: StreamOptions,
}

/// Without it no server counts.
#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Tool<'a> {
    fn new(tool: &'a ToolSpec) -> Self {
        let function =
            Function { name: &tool.name, description: &tool.description, parameters: &tool.schema };
        Self { r#type: "function", function }
    }
}

struct Messages<'a> {
    entries: &'a [Entry],
    files: &'a Loaded,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Plain<'a> {
            role: &'static str,
            content: &'a str,
        }
        #[derive(Serialize)]
        struct User<'a> {
            role: &'static str,
            content: Vec<UserPart<'a>>,
        }
        #[derive(Serialize)]
        struct Result<'a> {
            role: &'static str,
            tool_call_id: &'a str,
            content: &'a str,
        }
        let mut seq = serializer.serialize_seq(Some(self.entries.len()))?;
        for entry in self.entries {
            match entry {
                Entry::System(content) => {
                    seq.serialize_element(&Plain { role: "system", content })?;
                }
                Entry::User(pieces) => {
                    if let Some(content) = only_text(pieces) {
                        seq.serialize_element(&Plain { role: "user", content: &content })?;
                    } else {
                        let content = pieces.iter().map(|p| UserPart::new(p, self.files)).collect();
                        seq.serialize_element(&User { role: "user", content })?;
                    }
                }
                Entry::Assistant(raw) => seq.serialize_element(raw)?,
                Entry::Tool { id, content } => {
                    seq.serialize_element(&Result { role: "tool", tool_call_id: id, content })?;
                }
            }
        }
        seq.end()
    }
}

/// Text goes as a string, which every server and template takes.
fn only_text(pieces: &[Piece]) -> Option<String> {
    let texts: Option<Vec<&str>> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Image(_) | Piece::Audio(..) => None,
        })
        .collect();
    texts.map(|texts| texts.join("\n\n"))
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum UserPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
    InputAudio { input_audio: InputAudio<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: Encoded<'a>,
}

#[derive(Serialize)]
struct InputAudio<'a> {
    data: Encoded<'a>,
    format: &'static str,
}

/// Bytes in base64, made while the body is written: no second copy of the text is held.
struct Encoded<'a> {
    data_url_of: Option<&'a str>,
    bytes: &'a [u8],
}

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mime) = self.data_url_of {
            write!(f, "data:{mime};base64,")?;
        }
        Base64Display::new(self.bytes, &STANDARD).fmt(f)
    }
}

impl<'a> UserPart<'a> {
    fn new(piece: &'a Piece, files: &'a Loaded) -> Self {
        let bytes = |file: &FilePart| files.get(&file.blob.id).map_or(&[][..], Vec::as_slice);
        match piece {
            Piece::Text(text) => Self::Text { text },
            Piece::Image(file) => Self::ImageUrl {
                image_url: ImageUrl {
                    url: Encoded { data_url_of: Some(&file.blob.mime), bytes: bytes(file) },
                },
            },
            Piece::Audio(file, format) => Self::InputAudio {
                input_audio: InputAudio {
                    data: Encoded { data_url_of: None, bytes: bytes(file) },
                    format: match format {
                        AudioFormat::Wav => "wav",
                        AudioFormat::Mp3 => "mp3",
                    },
                },
            },
        }
    }
}
