//! Calls of signal-cli's daemon: JSON-RPC over HTTP. It has no authentication, so that whoever reaches
//! its port is the account.

use super::wire::{Answer, Listed, Outcome, Refusal, Standing, Taken};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use reqwest::{Response, StatusCode, redirect};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use url::Url;

/// What cannot be connected to within this time is not there.
const CONNECT: Duration = Duration::from_secs(10);
/// Until a method has answered. To send may take as long: the daemon speaks to Signal meanwhile.
const ANSWER: Duration = Duration::from_mins(1);
/// The daemon closes a connection that is idle for half a minute: one that is that old is not used.
const IDLE: Duration = Duration::from_secs(20);
/// Bytes of an answer that is no file.
const LARGEST: usize = 4 * 1024 * 1024;

/// Why a call had no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// Nothing was done.
    #[error("it cannot be reached: {0}")]
    Unreached(&'static str),
    /// It was asked, and may have done it.
    #[error("it broke off before it answered: {0}")]
    Unanswered(&'static str),
    /// Nothing was done, and it is no such daemon, or does not take our name for it.
    #[error("it answers {0}")]
    Other(StatusCode),
    #[error("it refuses: {message} ({code})")]
    Refused { code: i64, message: String, outcomes: Vec<Outcome> },
    #[error("{0}")]
    Account(#[from] AccountError),
}

impl CallError {
    /// Of a question that came before what was wanted, of which so nothing was done.
    fn before(self) -> Self {
        match self {
            Self::Unanswered(why) => Self::Unreached(why),
            Self::Refused { .. } => AccountError::Nameless.into(),
            other @ (Self::Unreached(_) | Self::Other(_) | Self::Account(_)) => other,
        }
    }
}

/// Why it is not known whose messages we hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AccountError {
    #[error("it has no account")]
    None,
    #[error("it has several accounts")]
    Several,
    #[error("it does not have the account that is configured")]
    Other,
    #[error("it does not know the id of its own account")]
    Nameless,
}

/// The account of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ours {
    /// Which never changes.
    pub(super) id: String,
    pub(super) number: String,
}

/// Who asks the daemon.
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    /// The number that is configured.
    wanted: Option<String>,
    ours: Mutex<Option<Ours>>,
}

impl Client {
    pub(super) fn new(base: Url, wanted: Option<String>) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("famulus/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http, base, wanted, ours: Mutex::default() })
    }

    /// The account, asked for anew: one may be linked, or gone.
    pub(super) async fn account(&self) -> Result<Ours, CallError> {
        let all: Vec<Listed> = self.ask("listAccounts", json!({})).await?;
        let number = match (&self.wanted, all.as_slice()) {
            (Some(wanted), all) if all.iter().any(|one| one.number == *wanted) => wanted.clone(),
            (_, []) => return Err(AccountError::None.into()),
            (Some(_), _) => return Err(AccountError::Other.into()),
            (None, [one]) => one.number.clone(),
            (None, _) => return Err(AccountError::Several.into()),
        };
        let known = self.ours.lock().clone().filter(|ours| ours.number == number);
        if let Some(known) = known {
            return Ok(known);
        }
        let asked = json!({"account": number, "recipient": [number]});
        let found: Vec<Standing> = self.ask("getUserStatus", asked).await?;
        let id = found.into_iter().find_map(|one| one.uuid).ok_or(AccountError::Nameless)?;
        let ours = Ours { id, number };
        *self.ours.lock() = Some(ours.clone());
        Ok(ours)
    }

    /// The account, as it is known.
    pub(super) async fn ours(&self) -> Result<Ours, CallError> {
        let known = self.ours.lock().clone();
        match known {
            Some(known) => Ok(known),
            None => self.account().await,
        }
    }

    /// Asks a method in the name of our account.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        mut parameters: Value,
    ) -> Result<T, CallError> {
        // Who has not learned whose account it is has not asked for anything else yet.
        let ours = self.ours().await.map_err(CallError::before)?;
        parameters["account"] = json!(ours.number);
        self.ask(method, parameters).await
    }

    /// Asks a method in nobody's name.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: Value,
    ) -> Result<T, CallError> {
        self.ask_within(method, parameters, ANSWER).await
    }

    /// The same for one that may take so long.
    pub(super) async fn ask_within<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: Value,
        limit: Duration,
    ) -> Result<T, CallError> {
        let response = self.post(method, parameters, limit).await?;
        let mut bytes = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            bytes.extend_from_slice(&piece.map_err(|error| unanswered(&error))?);
            if bytes.len() > LARGEST {
                return Err(CallError::Unanswered("its answer has no end"));
            }
        }
        match serde_json::from_slice::<Answer<T>>(&bytes) {
            Ok(Answer { error: Some(refusal), .. }) => Err(refused(refusal)),
            Ok(Answer { result: Some(result), .. }) => Ok(result),
            Ok(_) | Err(_) => Err(CallError::Unanswered("its answer cannot be read")),
        }
    }

    async fn post(
        &self,
        method: &str,
        parameters: Value,
        limit: Duration,
    ) -> Result<Response, CallError> {
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters});
        let request = self.http.post(self.address("rpc")).json(&asked).timeout(limit);
        let response = request.send().await.map_err(|error| unanswered(&error))?;
        match response.status() {
            StatusCode::OK => Ok(response),
            status if status.is_server_error() => {
                Err(CallError::Unanswered("something between failed"))
            }
            status => Err(CallError::Other(status)),
        }
    }

    /// What happens, from now on.
    pub(super) async fn events(&self, ours: &Ours) -> Result<Response, CallError> {
        let mut address = self.address("events");
        address.query_pairs_mut().append_pair("account", &ours.number);
        // Its first byte may come with the first keep-alive.
        let sent = self.http.get(address).header("accept", "text/event-stream").send();
        let response = match tokio::time::timeout(ANSWER, sent).await {
            Ok(sent) => sent.map_err(|error| unanswered(&error))?,
            Err(_elapsed) => return Err(CallError::Unanswered("no answer in time")),
        };
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::BAD_REQUEST => Err(AccountError::Other.into()),
            status => Err(CallError::Other(status)),
        }
    }

    /// A file that came with a message, of which nobody else has a copy. It comes within JSON, and is
    /// never held whole.
    pub(super) async fn file(
        &self,
        id: &str,
        size: Option<u64>,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static, CallError> {
        let account = self.ours().await?.number;
        let asked = json!({"account": account, "id": id});
        let response = self.post("getAttachment", asked, ANSWER).await?;
        let mut pieces = response.bytes_stream().boxed();
        let mut decoder = Decoder::default();
        let mut first = Vec::new();
        // Up to its beginning: what comes instead says why there is none.
        loop {
            match pieces.next().await {
                Some(Ok(piece)) => first.extend_from_slice(&piece),
                Some(Err(error)) => return Err(unanswered(&error)),
                None => break,
            }
            if let Some(at) = find(&first, DATA) {
                first.drain(..at + DATA.len());
                let whole = decoder.take(&first).map_err(|_| MALFORMED)?;
                let rest = stream::unfold(
                    (pieces, decoder, size, whole.len() as u64),
                    async |(mut pieces, mut decoder, size, got)| {
                        let next = next(&mut pieces, &mut decoder, size, got).await?;
                        let got = got + next.as_ref().map_or(0, |piece| piece.len() as u64);
                        Some((next, (pieces, decoder, size, got)))
                    },
                );
                return Ok(stream::iter([Ok(whole)]).chain(rest));
            }
            if first.len() > LARGEST {
                return Err(CallError::Unanswered("its answer has no end"));
            }
        }
        match serde_json::from_slice::<Answer<Value>>(&first) {
            Ok(Answer { error: Some(refusal), .. }) => Err(refused(refusal)),
            Ok(_) | Err(_) => Err(MALFORMED),
        }
    }

    fn address(&self, what: &str) -> Url {
        let mut address = self.base.clone();
        // A base that cannot hold a path was refused when it was read.
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1", what]);
        }
        address
    }
}

const DATA: &[u8] = b"\"data\":\"";
const MALFORMED: CallError = CallError::Unanswered("its answer cannot be read");

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// What comes next of a file; `None` behind its end.
async fn next(
    pieces: &mut (impl Stream<Item = reqwest::Result<Bytes>> + Unpin),
    decoder: &mut Decoder,
    size: Option<u64>,
    got: u64,
) -> Option<io::Result<Bytes>> {
    if decoder.is_told {
        return None;
    }
    if decoder.has_ended {
        decoder.is_told = true;
        // A download of the daemon's that broke off leaves a part, and no mark.
        let is_part = size.is_some_and(|size| size != got);
        return is_part.then(|| Err(io::ErrorKind::UnexpectedEof.into()));
    }
    match pieces.next().await {
        Some(Ok(piece)) => Some(decoder.take(&piece)),
        Some(Err(error)) => {
            decoder.is_told = true;
            Some(Err(io::Error::other(error.without_url().to_string())))
        }
        None => {
            decoder.is_told = true;
            Some(Err(io::ErrorKind::UnexpectedEof.into()))
        }
    }
}

/// Base64 in a string of JSON, cut anywhere.
#[derive(Default)]
struct Decoder {
    /// Less than four letters.
    rest: Vec<u8>,
    has_ended: bool,
    is_told: bool,
}

impl Decoder {
    fn take(&mut self, bytes: &[u8]) -> io::Result<Bytes> {
        if self.has_ended {
            return Ok(Bytes::new());
        }
        let end = bytes.iter().position(|byte| *byte == b'"');
        self.has_ended = end.is_some();
        // JSON may write a slash as two characters.
        let letters = bytes[..end.unwrap_or(bytes.len())].iter().filter(|byte| **byte != b'\\');
        self.rest.extend(letters);
        let whole = if self.has_ended { self.rest.len() } else { self.rest.len() / 4 * 4 };
        let decoded = BASE64_STANDARD
            .decode(&self.rest[..whole])
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.rest.drain(..whole);
        Ok(decoded.into())
    }
}

fn refused(refusal: Refusal) -> CallError {
    let Refusal { code, message, data } = refusal;
    let outcomes = data.and_then(|data| data.response).map(|Taken { results, .. }| results);
    CallError::Refused { code, message, outcomes: outcomes.unwrap_or_default() }
}

fn unanswered(error: &reqwest::Error) -> CallError {
    if error.is_connect() {
        CallError::Unreached("no connection")
    } else if error.is_timeout() {
        CallError::Unanswered("no answer in time")
    } else {
        CallError::Unanswered("the connection broke")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_however_it_is_cut() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        let text = format!("{}\"}},\"id\":1}}", BASE64_STANDARD.encode(&bytes)).replace('/', "\\/");
        for step in [1, 2, 3, 4, 5, 7, 64, 10_000] {
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(step) {
                found.extend_from_slice(&decoder.take(piece).unwrap());
            }
            assert!(decoder.has_ended && found == bytes, "by {step}");
        }
        assert!(Decoder::default().take(b"a$c=\"").is_err());
    }
}
