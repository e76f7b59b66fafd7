//! Registering a number: a captcha where one is wanted, a code, a PIN where the number is locked.

use crate::people;
use crate::rpc::{Refusal, refusal};
use crate::server::Signal;
use crate::world::World;
use serde_json::{Value, json};
use std::collections::HashMap;

/// What a solved captcha gives here.
const SOLVED: &str = "signalcaptcha://signal-hcaptcha.solved";

/// Numbers on their way to be accounts.
#[derive(Default)]
pub(crate) struct Registrations {
    pub(crate) wants_captcha: bool,
    /// PINs, by number.
    pub(crate) locked: HashMap<String, String>,
    /// What was sent, by number, and whether in a call.
    pub(crate) codes: HashMap<String, (String, bool)>,
}

impl Signal {
    /// Numbers are registered with a captcha from now on, until one was solved.
    pub fn want_captcha(&self) {
        self.world().registrations.wants_captcha = true;
    }

    /// A number is locked by this PIN.
    pub fn lock(&self, number: &str, pin: &str) {
        self.world().registrations.locked.insert(number.to_owned(), pin.to_owned());
    }

    /// The code that was sent to a number, and whether in a call.
    pub fn code_of(&self, number: &str) -> Option<(String, bool)> {
        self.world().registrations.codes.get(number).cloned()
    }
}

pub(crate) fn register(world: &mut World, asked: &Value) -> Result<Value, Refusal> {
    let number = number(asked)?;
    let by_call = asked["voice"].as_bool().unwrap_or_default();
    let world = &mut world.registrations;
    match asked["captcha"].as_str() {
        Some(SOLVED) => world.wants_captcha = false,
        Some(_) => return Err(refusal(-6, "Invalid captcha given")),
        None if world.wants_captcha => {
            return Err(refusal(-1, "Captcha required for verification (null)"));
        }
        None => {}
    }
    let code = format!("{:03}-{:03}", world.codes.len() + 123, 456);
    world.codes.insert(number, (code, by_call));
    Ok(json!({}))
}

pub(crate) fn verify(world: &mut World, asked: &Value) -> Result<Value, Refusal> {
    let number = number(asked)?;
    let registrations = &mut world.registrations;
    let sent = registrations.codes.get(&number).map(|(code, _)| code.as_str());
    if sent.is_none() || asked["verificationCode"].as_str() != sent {
        return Err(refusal(-3, "Verify error: StatusCode: 403"));
    }
    if registrations.locked.get(&number).map(String::as_str) != asked["pin"].as_str() {
        return Err(refusal(-1, "Verification failed! This number is locked with a pin."));
    }
    registrations.codes.remove(&number);
    let figures = number.strip_prefix("+1555").and_then(|rest| rest.parse().ok());
    let kept = world.add_account(number, people::id(figures.unwrap_or_default()));
    kept.map_err(|error| refusal(-32603, error.to_string()))?;
    Ok(json!({}))
}

fn number(asked: &Value) -> Result<String, Refusal> {
    let number = asked["account"].as_str();
    let number =
        number.ok_or_else(|| refusal(-32602, "Method requires valid account parameter"))?;
    Ok(number.to_owned())
}
