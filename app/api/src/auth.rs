//! Who is asking: a token in the `Authorization` header, never in the address.
//!
//! Tokens are random and looked up by their SHA-256, so that no comparison depends on a secret's
//! bytes. A caller that was found is remembered for [`REMEMBERED`], so that a request costs no query;
//! a token that another process revokes works for at most that long, one that is revoked here ends
//! at once.

use crate::problem::{Kind, Problem};
use axum::http::{HeaderMap, Uri, header};
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use famulus_core::{ids::TokenId, person::Caller};
use famulus_store::Store;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long a caller is known without asking again.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(5);
/// Callers that are known at once.
const CALLERS: usize = 4096;
/// The longest credential that is looked at, in bytes.
const LONGEST: usize = 1024;

/// Parameters that would carry a credential, without case, `-` and `_`.
const CREDENTIAL_KEYS: [&str; 14] = [
    "token",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "authtoken",
    "apikey",
    "key",
    "password",
    "passwd",
    "pwd",
    "secret",
    "clientsecret",
    "authorization",
    "bearer",
];

/// Both paddings are sent by real clients.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The name of the part of an address that holds a credential, if there is one.
pub(crate) fn credential_in(uri: &Uri) -> Option<String> {
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Some("user and password before the host".to_owned());
    }
    let query = uri.query()?;
    url::form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name).find_map(|name| {
        let plain: String =
            name.chars().filter(|c| !matches!(c, '-' | '_')).collect::<String>().to_lowercase();
        CREDENTIAL_KEYS.contains(&plain.as_str()).then(|| format!("`{name}`"))
    })
}

/// The SHA-256 of the request's token: after `Bearer `, or the password of `Basic `.
pub(crate) fn token_hash(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?;
    // Two credentials are none: whichever was meant, something between here and there disagrees.
    if values.next().is_some() || value.len() > LONGEST {
        return None;
    }
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return hash(rest.as_bytes());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64.decode(rest).ok()?;
    let password = match decoded.iter().position(|byte| *byte == b':') {
        Some(colon) => &decoded[colon + 1..],
        None => &decoded[..],
    };
    hash(password)
}

fn hash(token: &[u8]) -> Option<[u8; 32]> {
    (!token.is_empty()).then(|| Sha256::digest(token).into())
}

/// Callers by the hash of their token, and when they were found.
type Callers = HashMap<[u8; 32], (Arc<Caller>, Instant)>;

/// Callers that were found lately.
#[derive(Default)]
pub(crate) struct CallerCache {
    callers: Mutex<Callers>,
}

impl CallerCache {
    /// The caller, if it was found within [`REMEMBERED`].
    pub(crate) fn recall(&self, hash: &[u8; 32], now: Instant) -> Option<Arc<Caller>> {
        let callers = self.callers.lock();
        let (caller, at) = callers.get(hash)?;
        (now.saturating_duration_since(*at) < REMEMBERED).then(|| Arc::clone(caller))
    }

    /// Looks the token up.
    pub(crate) async fn look_up(
        &self,
        store: &Store,
        hash: [u8; 32],
        now: Instant,
    ) -> Result<Option<Arc<Caller>>, Problem> {
        let Some(caller) = store.authenticate(hash).await? else {
            self.callers.lock().remove(&hash);
            return Ok(None);
        };
        let caller = Arc::new(caller);
        let mut callers = self.callers.lock();
        if callers.len() >= CALLERS {
            callers.retain(|_, (_, at)| now.saturating_duration_since(*at) < REMEMBERED);
        }
        if callers.len() < CALLERS {
            callers.insert(hash, (Arc::clone(&caller), now));
        }
        Ok(Some(caller))
    }

    /// Forgets a token, and with `None` everybody: something about them has changed.
    pub(crate) fn forget(&self, token: Option<TokenId>) {
        let mut callers = self.callers.lock();
        match token {
            Some(token) => callers.retain(|_, (caller, _)| caller.token != Some(token)),
            None => callers.clear(),
        }
    }
}

pub(crate) fn unauthorized() -> Problem {
    Problem::new(
        Kind::Unauthorized,
        "the request has no token, or one that is unknown or revoked",
        "send `Authorization: Bearer TOKEN`, or HTTP Basic with the token as the password; `famulus token` shows it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_credential_in_an_address_is_found() {
        let check = |uri: &str, expected: bool| {
            assert_eq!(credential_in(&uri.parse().unwrap()).is_some(), expected, "{uri}");
        };
        check("/chat", false);
        check("/v1/conversations?limit=5&before=x", false);
        check("/chat?token=x", true);
        check("/chat?a=b&Access_Token=x", true);
        check("/chat?api%5Fkey=x", true);
        check("/chat?API-KEY=", true);
        check("/chat?password", true);
        check("/chat?tokens=3", false);
        check("http://user:secret@host/chat", true);
    }

    #[test]
    fn the_token_is_read_from_bearer_and_basic() {
        let token = hash(b"secret:with:colons");
        let check = |value: &str, expected: Option<[u8; 32]>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            assert_eq!(token_hash(&headers), expected, "{value}");
        };
        let basic = |text: &str| format!("Basic {}", BASE64.encode(text));
        check("Bearer secret:with:colons", token);
        check("bearer  secret:with:colons ", token);
        check(&basic("anybody:secret:with:colons"), token);
        check(&basic(":secret:with:colons"), token);
        check(basic("anybody:secret:with:colons").trim_end_matches('='), token);
        check(&basic("whole"), hash(b"whole"));
        check(&basic("user:"), None);
        check("Bearer ", None);
        check("Basic !!!", None);
        check("Digest x", None);
        check("secret", None);
    }

    #[test]
    fn two_credentials_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        headers.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        assert_eq!(token_hash(&headers), None);
        assert_eq!(token_hash(&HeaderMap::new()), None);
    }
}
