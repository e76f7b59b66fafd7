//! A way to the Service of the app from outside of the cluster that lasts: one of kubectl ends with the Pod
//! that it led to.

use std::net::TcpListener;
use std::process::Stdio;

use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::kubectl::{LONG, LOOK, command, until};

/// An address on this machine that leads to a Pod which the Service chooses, and to another one when that is
/// gone, for as long as the test runs.
pub(crate) async fn lasting(release: &str) -> String {
    // Whoever leads there anew must listen where the one before did.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let (namespace, service) = (release.to_owned(), format!("service/{release}"));
    tokio::spawn(async move {
        let ports = format!("{}:3000", address.port());
        loop {
            let mut way = command(&["-n", &namespace, "port-forward", &service, &ports]);
            let _ended = way.stdout(Stdio::null()).stderr(Stdio::null()).status().await;
            sleep(LOOK).await;
        }
    });
    until("there is a way to the app", LONG, async || {
        TcpStream::connect(address).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    format!("http://{address}")
}
