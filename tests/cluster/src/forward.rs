//! A way into the cluster from outside that lasts: one of kubectl ends with the Pod that it led to.

use std::net::TcpListener;
use std::process::Stdio;

use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::kubectl::{LONG, LOOK, command, until};

/// An address on this machine that leads to a port of `target`, `service/famulus` for one, and of the Pod that
/// comes when the one behind it is gone, for as long as the test runs.
pub async fn lasting(namespace: &str, target: &str, port: u16) -> String {
    // Whoever leads there anew must listen where the one before did.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let (namespace, target) = (namespace.to_owned(), target.to_owned());
    tokio::spawn(async move {
        let ports = format!("{}:{port}", address.port());
        loop {
            let mut way = command(&["-n", &namespace, "port-forward", &target, &ports]);
            let _ended = way.stdout(Stdio::null()).stderr(Stdio::null()).status().await;
            sleep(LOOK).await;
        }
    });
    until("there is a way into the cluster", LONG, async || {
        TcpStream::connect(address).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    format!("http://{address}")
}
