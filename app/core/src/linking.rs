//! How a program that speaks on a platform comes to an account: somebody scans a link with a device that
//! has one, or a number is registered, to which the platform sends a code.

use async_trait::async_trait;

/// Gives the program of a channel an account of ours.
#[async_trait]
pub trait Linker: Send + Sync + 'static {
    /// A link to be scanned, good for one use and a minute or two.
    async fn begin(&self) -> Result<String, LinkError>;

    /// Waits until the link was scanned: the account, as people know it. It is called right after
    /// [`Self::begin`], and once.
    async fn finish(&self, link: &str) -> Result<String, LinkError>;

    /// Has the platform send a code to the number that is to be registered. Whoever had the number there
    /// before loses it with [`Self::verify`].
    async fn register(&self, new: &Registration) -> Result<(), LinkError>;

    /// Registers the number by that code.
    async fn verify(&self, number: &str, proof: &Proof) -> Result<(), LinkError>;
}

/// Whether it is a telephone number with its country, such as `+491701234567`: a plus, and 4 to 15 figures.
pub fn is_number(text: &str) -> bool {
    let figures = text.strip_prefix('+').unwrap_or_default();
    (4..=15).contains(&figures.len()) && figures.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number of the assistant's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// With its country: `+491701234567`.
    pub number: String,
    /// What a solved captcha gave.
    pub captcha: Option<String>,
    /// By a call, and not by a text message.
    pub by_call: bool,
}

/// That a number is whose it is said to be. Not for logs, so it has no `Debug`.
pub struct Proof {
    pub code: String,
    /// Where the number was locked by one.
    pub pin: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The program does not answer.
    #[error("{0}")]
    Away(String),
    #[error("nobody scanned the link in time")]
    Late,
    /// The platform wants a captcha to be solved first, at this address.
    #[error("the platform wants to see that you are a person")]
    Captcha { at: &'static str },
    /// The platform lets nobody try so often.
    #[error("{0}")]
    TooOften(String),
    /// The program refuses, and why.
    #[error("{0}")]
    Refused(String),
}
