//! People who write to a bot of a scripted Telegram, from the first word to the reply.

mod bad_days;
mod messages;
mod people;
mod questions;

use crate::world::{Setup, World};
use famulus_scripted_telegram::{Telegram, User};
use serde_json::json;

pub(crate) const TOKEN: &str = "99:the-bot's-secret";

pub(crate) fn setup(telegram: &Telegram) -> Setup {
    let demo = famulus_models::Config::default();
    Setup::configured(demo).set(|config| {
        config.channels.telegram.token = Some(TOKEN.to_owned().into());
        config.channels.telegram.base_url = Some(telegram.base_url().parse().unwrap());
    })
}

/// The code that a stranger was told.
async fn code(telegram: &Telegram, user: &User) -> String {
    telegram.write(user, &user.chat(), "let me in");
    let told = telegram.wait_for(user.id, |one| one.text.contains("people pair")).await;
    let bold = told.entities.iter().find(|entity| entity.kind == "bold").unwrap();
    told.text.chars().skip(bold.offset).take(bold.length).collect()
}

/// Lets somebody in as an account of the owner's, or as a member.
pub(crate) async fn let_in(world: &World, telegram: &Telegram, user: &User, is_owner: bool) {
    let code = code(telegram, user).await;
    let mut body = json!({ "code": code });
    if is_owner {
        body["becomes"]["person"] = world.owner.get("/v1/me").await.ok()["person"]["id"].clone();
    }
    world.owner.post("/v1/pairings", body).await.ok();
}
