//! Parameters of a method: in the address, in a form, in JSON, or in parts.

use axum::body::to_bytes;
use axum::extract::{FromRequest, Multipart, Request};
use bytes::Bytes;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Bytes of a request, with what is uploaded.
const MOST: usize = 60 * 1024 * 1024;

/// A file that came with a call.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) name: String,
    pub(crate) media_type: String,
    pub(crate) bytes: Bytes,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    pub(crate) values: Map<String, Value>,
    pub(crate) uploads: BTreeMap<String, Upload>,
}

impl Parameters {
    pub(crate) async fn read(request: Request) -> Self {
        let mut parameters = Self::default();
        if let Some(query) = request.uri().query() {
            parameters.take_form(query);
        }
        let kind = request.headers().get("content-type");
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        if kind.starts_with("multipart/form-data") {
            let Ok(mut parts) = Multipart::from_request(request, &()).await else {
                return parameters;
            };
            while let Ok(Some(part)) = parts.next_field().await {
                let name = part.name().unwrap_or_default().to_owned();
                let file = part.file_name().map(str::to_owned);
                let media_type = part.content_type().unwrap_or_default().to_owned();
                let Ok(bytes) = part.bytes().await else { break };
                if let Some(file) = file {
                    parameters.uploads.insert(name, Upload { name: file, media_type, bytes });
                } else {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    parameters.values.insert(name, Value::String(text));
                }
            }
            return parameters;
        }
        let body = to_bytes(request.into_body(), MOST).await.unwrap_or_default();
        if kind.starts_with("application/json") {
            // A body that is malformed is not told of: its parameters are just missing.
            if let Ok(Value::Object(values)) = serde_json::from_slice(&body) {
                parameters.values.extend(values);
            }
        } else {
            parameters.take_form(&String::from_utf8_lossy(&body));
        }
        parameters
    }

    fn take_form(&mut self, form: &str) {
        for pair in form.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.values.insert(decoded(name), Value::String(decoded(value)));
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let value = self.values.get(name)?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// A number, however it is written.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        let value = self.values.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    /// Something with a structure, which is text in a form.
    pub(crate) fn structure(&self, name: &str) -> Option<Value> {
        let value = self.values.get(name)?;
        value.as_str().map_or_else(|| Some(value.clone()), |text| serde_json::from_str(text).ok())
    }
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (b'+', _) => {
                out.push(b' ');
                at += 1;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
