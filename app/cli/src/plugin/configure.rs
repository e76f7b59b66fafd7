//! `famulus plugin configure`: a value for a key of a plugin, on the command line, or typed without being shown.

use std::io::{self, IsTerminal as _};

use famulus_core::plugin::value_of;
use reqwest::Method;
use serde_json::{Value, json};

use crate::clean::one_line;
use crate::client::Client;
use crate::error::Error;
use crate::input::Lines;
use crate::output::Output;
use crate::unseen;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConfigureArgs {
    name: String,
    key: String,
    /// JSON, where it reads as a number, a truth, an array or an object; else text. Left out, it is typed without
    /// being shown, or is the first line of the standard input
    #[arg(allow_negative_numbers = true)]
    value: Option<String>,
    /// Take the value from the key
    #[arg(long, conflicts_with = "value")]
    unset: bool,
}

pub(crate) async fn run(
    args: ConfigureArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    const WHAT: &str = "a value that was taken in";
    let ConfigureArgs { name, key, value, unset } = args;
    let path = ["v1", "plugins", &name, "config", &key];
    if unset {
        client.delete(&path, WHAT).await?;
        return output.print(&format!("{key} of {name} has no value now"));
    }
    let text = match value {
        Some(text) => text,
        None => typed(&name, &key, output).await?,
    };
    let body = json!({ "value": value_of(&text) });
    let _empty: Value = client.send(Method::PUT, &path, &body, WHAT).await?;
    output.print(&format!("{key} of {name} has a value now"))
}

async fn typed(plugin: &str, key: &str, output: &mut Output) -> Result<String, Error> {
    let line = if io::stdin().is_terminal() {
        let question = format!("{key} of {plugin}, which is not shown: ");
        unseen::ask(&one_line(&question), output).await?
    } else {
        Lines::stdin()?.next().await?
    };
    let line = line.filter(|line| !line.is_empty());
    line.ok_or_else(|| Error::NoValue { key: one_line(key) })
}
