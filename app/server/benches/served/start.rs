//! F4: from exec until the server says that it is ready, on a schema that is current.

use crate::{
    latency,
    model::{Manner, Model},
    request::Request,
    server::{self, Server, pid_of},
};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

/// Between two tries.
const AGAIN: Duration = Duration::from_micros(300);
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    // Migrates, and makes the owner.
    let model = Model::start(Manner::Brief).await?;
    Server::start(request, &model.url).await?.end().await?;
    let folder = tempfile::tempdir()?;
    let mut took = Vec::new();
    for _ in 0..request.extent {
        let address = free_address()?;
        let mut command = server::command(request, folder.path());
        command.env("FAMULUS_API__LISTEN", address.to_string()).stdout(Stdio::null());
        let begun = Instant::now();
        let process = command.spawn()?;
        let pid = pid_of(&process)?;
        tokio::task::block_in_place(|| ready(address))?;
        took.push(begun.elapsed());
        server::end(process, pid).await?;
    }
    model.end();
    Ok(json!({ "ready": latency::report(took) }))
}

/// One that nobody listens on.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Asks until the answer is yes.
fn ready(address: SocketAddr) -> Result<()> {
    let begun = Instant::now();
    while !is_ready(address).unwrap_or(false) {
        ensure!(begun.elapsed() < PATIENCE, "the server was not ready within {PATIENCE:?}");
        sleep(AGAIN);
    }
    Ok(())
}

fn is_ready(address: SocketAddr) -> Result<bool> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}
