//! The scenarios that the server can play; on the command line they are called days.

use super::script::{Script, Step};
use super::wire::{self, Request};
use crate::demo::Answer;
use axum::body::Bytes;
use famulus_core::message::ToolCall;
use serde_json::json;
use std::str::FromStr;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What happens to one request. Scenarios that need an answer take the demo model's.
#[derive(Clone, Debug)]
pub enum Scenario {
    /// The demo model answers.
    Demo,
    /// The demo model answers, and writes its calls as XML into the text.
    DemoXml,
    /// This text.
    Text(String),
    /// These calls: name and arguments.
    Calls(Vec<(String, String)>),
    /// A good answer whose connection breaks after so many bytes.
    Cut {
        bytes: usize,
    },
    /// A good answer that ends without a word after so many bytes.
    End {
        bytes: usize,
    },
    /// 429, and when to come back.
    Busy {
        retry_after: String,
    },
    /// This status and an error body.
    Status(u16),
    /// An event in the middle that is no JSON.
    Malformed,
    /// Every event after such a pause.
    Slow(Duration),
    /// The head comes, then nothing, or a comment at each interval.
    Silent {
        pings: Option<Duration>,
    },
    /// The head does not come.
    Deaf,
    /// Two calls under one id.
    DuplicateIds(Vec<(String, String)>),
    /// Words without end.
    Endless,
    /// A good text; once the token is cancelled, a call that nobody expects any more.
    LateCall {
        after: CancellationToken,
        name: String,
        arguments: String,
    },
    /// A good answer that is not counted.
    NoUsage,
    /// An error object instead of the end.
    ErrorInStream,
    /// A line of two mebibytes.
    HugeLine,
    /// A good answer as one JSON object.
    Whole,
    /// A redirect to this address.
    Redirect(String),
    /// A web page.
    Page,
    Script(Script),
}

#[derive(Debug, thiserror::Error)]
#[error(
    "there is no day called `{name}`; known: demo, xml, cut:BYTES, end:BYTES, busy:SECONDS, a status, malformed, slow:MS, silent, pings:MS, deaf, endless, no-usage, error, huge-line, whole, page"
)]
pub struct ScenarioError {
    name: String,
}

/// For the command line: the name, and behind a colon its number.
impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let (name, number) = text.split_once(':').unwrap_or((text, ""));
        let unknown = || ScenarioError { name: text.to_owned() };
        let count = || number.parse::<u64>().map_err(|_| unknown());
        let time = || count().map(Duration::from_millis);
        Ok(match name {
            "demo" => Self::Demo,
            "xml" => Self::DemoXml,
            "cut" => Self::Cut { bytes: number.parse().map_err(|_| unknown())? },
            "end" => Self::End { bytes: number.parse().map_err(|_| unknown())? },
            "busy" => Self::Busy { retry_after: count()?.to_string() },
            "malformed" => Self::Malformed,
            "slow" => Self::Slow(time()?),
            "silent" => Self::Silent { pings: None },
            "pings" => Self::Silent { pings: Some(time()?) },
            "deaf" => Self::Deaf,
            "endless" => Self::Endless,
            "no-usage" => Self::NoUsage,
            "error" => Self::ErrorInStream,
            "huge-line" => Self::HugeLine,
            "whole" => Self::Whole,
            "page" => Self::Page,
            _ => match text.parse::<u16>() {
                Ok(status @ 300..600) => Self::Status(status),
                Ok(_) | Err(_) => return Err(unknown()),
            },
        })
    }
}

impl Scenario {
    /// Whether it is the same whatever was asked.
    pub(super) fn is_blind(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. } | Self::Status(_) | Self::Redirect(_) | Self::Page | Self::Script(_)
        )
    }

    pub(super) fn script(self, request: &Request) -> Script {
        let demo = || wire::frames(request, &request.answer());
        let send = |frames: Vec<Bytes>| frames.into_iter().map(Step::Send).collect::<Vec<_>>();
        match self {
            Self::Demo => Script::events(send(demo())),
            Self::DemoXml => Script::events(send(wire::xml_frames(request, &request.answer()))),
            Self::Text(text) => Script::events(send(wire::frames(request, &Answer::Text(text)))),
            Self::Calls(calls) => Script::events(send(wire::frames(request, &made(calls, None)))),
            Self::DuplicateIds(calls) => {
                Script::events(send(wire::frames(request, &made(calls, Some("call_same")))))
            }
            Self::Cut { bytes } => {
                let mut steps = send(first(demo(), bytes));
                steps.push(Step::Reset);
                Script::events(steps)
            }
            Self::End { bytes } => Script::events(send(first(demo(), bytes))),
            Self::Busy { retry_after } => {
                Script::json(429, &json!({"error": {"message": "slow down", "type": "rate_limit"}}))
                    .with_header("retry-after", retry_after)
            }
            Self::Status(status) => Script::json(
                status,
                &json!({"error": {"message": format!("a bad day ({status})"), "type": "scripted"}}),
            ),
            Self::Malformed => {
                let mut frames = demo();
                frames.insert(frames.len() / 2, Bytes::from_static(b"data: {\"choices\":[{\n\n"));
                Script::events(send(frames))
            }
            Self::Slow(pause) => {
                let paused = |frame| [Step::Pause(pause), Step::Send(frame)];
                Script::events(demo().into_iter().flat_map(paused).collect())
            }
            Self::Silent { pings } => {
                let rest = match pings {
                    Some(time) => Step::SendEvery(time, Bytes::from_static(b": ping\n\n")),
                    None => Step::Hang,
                };
                // The first event shows that the head has come.
                Script::events(vec![Step::Send(wire::role_frame(request)), rest])
            }
            // The server holds back the head of its own accord.
            Self::Deaf => Script::events(vec![Step::Hang]),
            Self::Endless => Script::events(vec![
                Step::Send(wire::role_frame(request)),
                Step::SendForEver(wire::text_frame(request, &"again and ".repeat(400))),
            ]),
            Self::LateCall { after, name, arguments } => {
                let text = Step::Send(wire::text_frame(request, "Let me think. "));
                let mut steps = vec![text, Step::WaitFor(after)];
                steps.extend(send(wire::frames(request, &made(vec![(name, arguments)], None))));
                Script::events(steps)
            }
            Self::NoUsage => {
                let frames = demo().into_iter().filter(|frame| !wire::is_usage(frame)).collect();
                Script::events(send(frames))
            }
            Self::ErrorInStream => {
                let error = json!({"error": {"message": "the worker died", "code": 502}});
                let mut frames = demo();
                frames.truncate(4);
                frames.push(wire::frame(&error));
                Script::events(send(frames))
            }
            Self::HugeLine => {
                let mut steps = vec![Step::Send(Bytes::from_static(b"data: "))];
                let piece = Bytes::from(vec![b'x'; 1 << 16]);
                steps.extend(std::iter::repeat_n(Step::Send(piece), 32));
                Script::events(steps)
            }
            Self::Whole => Script::json(200, &wire::whole(request, &request.answer())),
            Self::Redirect(to) => Script::json(307, &json!({})).with_header("location", to),
            Self::Page => Script {
                status: 200,
                headers: vec![("content-type", "text/html; charset=utf-8".to_owned())],
                steps: vec![Step::Send(Bytes::from_static(b"<!doctype html><p>Welcome"))],
            },
            Self::Script(script) => script,
        }
    }
}

fn made(calls: Vec<(String, String)>, id: Option<&str>) -> Answer {
    let call = |(at, (name, arguments)): (usize, (String, String))| ToolCall {
        id: id.map_or_else(|| format!("call_{at}"), ToOwned::to_owned),
        name,
        arguments,
    };
    Answer::Calls(calls.into_iter().enumerate().map(call).collect())
}

/// The first bytes of an answer, cut in the middle of a frame if need be.
fn first(frames: Vec<Bytes>, bytes: usize) -> Vec<Bytes> {
    let mut room = bytes;
    let mut kept = Vec::new();
    for frame in frames {
        let length = frame.len().min(room);
        room -= length;
        if length > 0 {
            kept.push(frame.slice(..length));
        }
    }
    kept
}
