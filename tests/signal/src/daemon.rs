//! The scripted daemon in the place of the real one: started by the same words, with its data where the real
//! one has it.

use famulus_lifecycle::Signals;
use famulus_scripted_signal::{Mode, Signal};
use std::env;
use std::io::{Error, Result};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where a test says what happens.
const SCRIPTS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// Serves until it is told to end.
pub(crate) async fn run(words: &[String]) -> Result<()> {
    let mut signals = Signals::install()?;
    let (address, mode) = asked(words)?;
    let data = env::var_os("XDG_DATA_HOME").map(|home| PathBuf::from(home).join("signal-cli"));
    let data = data.ok_or_else(|| Error::other("XDG_DATA_HOME names no folder"))?;
    let signal = Signal::keeping(address, data).await?;
    signal.set_mode(mode);
    signal.take_scripts(SCRIPTS).await?;
    signals.wait_for_signal().await;
    signal.stop().await;
    Ok(())
}

fn asked(words: &[String]) -> Result<(SocketAddr, Mode)> {
    let refused = |word: &str| Error::other(format!("unrecognized arguments: '{word}'"));
    let [first, rest @ ..] = words else { return Err(refused("")) };
    if first != "daemon" {
        return Err(refused(first));
    }
    let (mut address, mut mode) = (None, Mode::OnStart);
    for word in rest {
        match word.split_once('=') {
            Some(("--http", at)) => address = Some(at.parse().map_err(|_| refused(word))?),
            Some(("--receive-mode", "on-connection")) => mode = Mode::OnConnection,
            Some(("--receive-mode", "on-start")) => mode = Mode::OnStart,
            Some(_) | None => return Err(refused(word)),
        }
    }
    Ok((address.ok_or_else(|| refused("--http is missing"))?, mode))
}
