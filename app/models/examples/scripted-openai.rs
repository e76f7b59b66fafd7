//! A model server for trying things out: the demo model behind the OpenAI wire, and bad days.
//!
//! ```text
//! cargo run -p famulus-models --example scripted-openai -- --port 8099 --first busy:3,cut:400
//! ```

use famulus_models::scripted::{Scenario, Scripted};
use std::io::Write as _;
use std::process::ExitCode;

const USAGE: &str =
    "usage: scripted-openai [--port N] [--key KEY] [--first DAY,DAY,...] [--day DAY]
  --port N     where to listen on loopback; 0 takes a free port (default 8099)
  --key KEY    refuse requests without this key
  --first ...  the days of the first requests
  --day DAY    the day of every other request (default demo)";

struct Arguments {
    port: u16,
    key: Option<String>,
    first: Vec<Scenario>,
    scenario: Scenario,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = read(std::env::args().skip(1))?;
    let server = Scripted::listen(arguments.port, arguments.key.as_deref()).await.map_err(|e| {
        format!("port {} cannot be listened on: {e}; choose another with --port", arguments.port)
    })?;
    arguments.first.into_iter().for_each(|scenario| server.push(scenario));
    server.otherwise(arguments.scenario);
    let key = arguments
        .key
        .map(|_| "api_key = { env = \"SCRIPTED_KEY\" }  # export SCRIPTED_KEY with that key\n")
        .unwrap_or_default();
    writeln!(
        std::io::stdout(),
        "[model]\nbase_url = \"{}\"\nname = \"demo-over-the-wire\"\n{key}\n# listening; Ctrl-C ends it",
        server.base_url()
    )?;
    tokio::signal::ctrl_c().await?;
    Ok(())
}

fn read(mut words: impl Iterator<Item = String>) -> Result<Arguments, Box<dyn std::error::Error>> {
    let mut arguments =
        Arguments { port: 8099, key: None, first: Vec::new(), scenario: Scenario::Demo };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value\n{USAGE}"));
        match word.as_str() {
            "--port" => arguments.port = value()?.parse()?,
            "--key" => arguments.key = Some(value()?),
            "--first" => {
                arguments.first = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--day" => arguments.scenario = value()?.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(arguments)
}
