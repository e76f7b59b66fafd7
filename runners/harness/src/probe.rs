//! Looks at the network of the Pod before anything of a plugin may run.
//!
//! A network that lets nothing through proves nothing by itself: the control must be reached, so
//! that what is not reached is not because it was kept away. Who must not be reached is tried with
//! far more patience than the control took. The kubelet of the Pod's own node is tried, too, and told
//! of where it answers: a node with a public address is public, unless the policies name it, and some
//! networks let every Pod reach its own node, whatever the policies say.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use famulus_protocol::revision::{Network, Probed};
use famulus_settings::{Error, Given};
use futures::future::{join, join_all};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::{App, ENDPOINT, Endpoint};

/// Tries of each address that must not be reached.
const TRIES: u32 = 3;

/// The shortest patience with it, and how many times that of the control otherwise.
const SHORTEST: Duration = Duration::from_millis(50);
const TIMES: u32 = 20;

/// How often the way to the control is measured, unless it is short at once. A first packet that is
/// lost, as in a network that learns of a new Pod a moment late, is sent again after a second: that
/// says nothing of the way, and twenty times as much for each try would keep a call for a minute.
const TRIPS: u32 = 3;

/// How long one try of the control may take.
const CONTROL: Duration = Duration::from_secs(2);

/// Between two looks.
const AGAIN: Duration = Duration::from_millis(250);

/// The ids of a process that has no user namespace: all are the node's.
const ALL_IDS: &str = "0 0 4294967295";

/// The port of every kubelet, unless somebody changed it.
const KUBELET: u16 = 10250;

const ADDRESSES: &str = "addresses with ports, with `,` between";

/// Who is looked at to see whether the network is closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// The app's callback port, which must be reached; on one machine its socket.
    pub control: Option<Endpoint>,
    /// Who must not be.
    pub denied: Vec<SocketAddr>,
    /// The kubelet of its node, which is told of.
    pub node: Option<SocketAddr>,
    /// How long the policies of a new Pod may take to come into force.
    pub settling: Duration,
    /// Between two looks at a network that was found closed. A call has an open one for so long at
    /// most; a look is a request to the app and six packets that nobody answers.
    pub pause: Duration,
}

impl Targets {
    pub fn read(given: &mut Given) -> Result<Self, Error> {
        Ok(Self {
            control: given.read("PROBE_CONTROL", ENDPOINT)?,
            denied: given.list("PROBE_DENIED", ',', ADDRESSES)?.unwrap_or_default(),
            node: given
                .read::<IpAddr>("PROBE_NODE", "an IP address")?
                .map(|node| SocketAddr::new(node, KUBELET)),
            settling: given.seconds("PROBE_SECONDS", 20.0)?,
            pause: given.seconds("PROBE_AGAIN_SECONDS", 20.0)?,
        })
    }
}

/// Looks until the network is found closed, or until policies have had their time.
pub async fn settle(targets: &Targets) -> Probed {
    let until = Instant::now() + targets.settling;
    loop {
        let probed = look(targets).await;
        if probed.network == Network::Closed || Instant::now() >= until || is_without(targets) {
            return probed;
        }
        sleep(AGAIN).await;
    }
}

/// Looks once.
pub async fn look(targets: &Targets) -> Probed {
    let (network, detail, node) = judge(targets).await;
    let ids = fs::read_to_string(Path::new("/proc/self/uid_map")).unwrap_or_default();
    Probed { network, detail, user_namespace: is_mapped(&ids), node }
}

fn is_without(targets: &Targets) -> bool {
    targets.control.is_none() || targets.denied.is_empty()
}

/// What the network is, why, and the kubelet's port of the node if it answers.
async fn judge(targets: &Targets) -> (Network, String, Option<SocketAddr>) {
    let Some(control) = targets.control.as_ref().filter(|_| !targets.denied.is_empty()) else {
        let why = "nothing was named to look at; set FAMULUS_RUNNER_PROBE_CONTROL and _DENIED";
        return (Network::Unknown, why.to_owned(), None);
    };
    let trip = round_trip(control).await;
    let patience = trip.as_ref().map_or(SHORTEST, |trip| (*trip * TIMES).max(SHORTEST));
    let tries = targets.denied.iter().map(|address| reach(*address, patience));
    let node = async {
        match targets.node {
            Some(node) => reach(node, patience).await,
            None => None,
        }
    };
    let (tries, node) = join(join_all(tries), node).await;
    let reached: Vec<SocketAddr> = tries.into_iter().flatten().collect();
    let list = |addresses: &[SocketAddr]| {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    };
    if !reached.is_empty() {
        let detail = format!(
            "{} can be reached and must not be; see whether the cluster enforces NetworkPolicies",
            list(&reached)
        );
        return (Network::Open, detail, node);
    }
    match trip {
        Ok(trip) => {
            let detail = format!(
                "{control} was reached in {:.1} ms; {} was not, {TRIES} times with {} ms of \
                 patience",
                trip.as_secs_f64() * 1000.0,
                list(&targets.denied),
                patience.as_millis()
            );
            (Network::Closed, detail, node)
        }
        Err(why) => {
            let detail = format!(
                "the app's callback port {control} was not reached ({why}), so that the rest proves \
                 nothing; see whether the app runs and its NetworkPolicy lets this Pod in"
            );
            (Network::Unknown, detail, node)
        }
    }
}

/// How long the control takes for a connection. It must also answer as the app does.
async fn round_trip(control: &Endpoint) -> Result<Duration, String> {
    let trip = shortest(|| connect(control)).await?;
    App::ping(&control.url(), CONTROL).await?;
    Ok(trip)
}

async fn connect(control: &Endpoint) -> Result<Duration, String> {
    let begun = Instant::now();
    match timeout(CONTROL, control.try_connect()).await {
        Ok(Ok(_connected)) => Ok(begun.elapsed()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_late) => Err(format!("no connection in {} s", CONTROL.as_secs())),
    }
}

/// The shortest of a few trips; the first must succeed.
async fn shortest<F>(mut trip: impl FnMut() -> F) -> Result<Duration, String>
where
    F: Future<Output = Result<Duration, String>>,
{
    let mut shortest = trip().await?;
    for _further in 1..TRIPS {
        if shortest * TIMES <= SHORTEST {
            break;
        }
        shortest = trip().await.map_or(shortest, |other| other.min(shortest));
    }
    Ok(shortest)
}

/// The address, if one of the tries reached it.
async fn reach(address: SocketAddr, patience: Duration) -> Option<SocketAddr> {
    for _try in 0..TRIES {
        // A refusal is the answer of a policy, or of nobody: no door is open.
        if let Ok(Ok(_connected)) = timeout(patience, TcpStream::connect(address)).await {
            return Some(address);
        }
    }
    None
}

/// Whether ids of this process mean nothing on the node.
fn is_mapped(ids: &str) -> bool {
    let lines: Vec<Vec<&str>> =
        ids.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
    !lines.is_empty() && lines != [ALL_IDS.split(' ').collect::<Vec<_>>()]
}

#[cfg(test)]
mod tests {
    use famulus_lifecycle::{OnExit, Tasks};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// An app that answers each request with this status.
    async fn app(status: &'static str, tasks: &Tasks) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tasks.spawn("app", OnExit::Log, async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                if socket.read(&mut request).await.unwrap_or(0) > 0 {
                    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    socket.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        });
        address
    }

    /// An address at which nobody listens while the socket is held.
    fn nobody() -> (TcpSocket, SocketAddr) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    #[tokio::test]
    async fn the_network_is_closed_only_when_the_control_was_reached_and_nobody_else() {
        let tasks = Tasks::new();
        let (app, other) = (app("204 No Content", &tasks).await, app("500 Oops", &tasks).await);
        let ((_gone, gone), (_away, away)) = (nobody(), nobody());
        let check = async |control: Option<SocketAddr>, denied: &[SocketAddr], expected| {
            let control = control.map(Endpoint::Address);
            let targets = Targets { control, denied: denied.to_vec(), ..Targets::default() };
            let probed = look(&targets).await;
            assert_eq!(probed.network, expected, "{targets:?}: {}", probed.detail);
        };
        check(Some(app), &[gone, away], Network::Closed).await;
        check(Some(app), &[gone, other], Network::Open).await;
        check(Some(gone), &[other], Network::Open).await;
        check(Some(gone), &[away], Network::Unknown).await;
        // What answers in the app's place and is not the app proves nothing.
        check(Some(other), &[gone], Network::Unknown).await;
        check(Some(app), &[], Network::Unknown).await;
        check(None, &[gone], Network::Unknown).await;
    }

    #[tokio::test]
    async fn a_node_that_answers_is_told_of_and_closes_or_opens_nothing() {
        let tasks = Tasks::new();
        let (app, node) = (app("204 No Content", &tasks).await, app("401 No", &tasks).await);
        let ((_gone, gone), (_away, away)) = (nobody(), nobody());
        let check = async |control, node, expected| {
            let control = Some(Endpoint::Address(control));
            let targets = Targets { control, denied: vec![away], node, ..Targets::default() };
            let probed = look(&targets).await;
            assert_eq!((probed.network, probed.node), expected, "{targets:?}: {}", probed.detail);
        };
        check(app, Some(node), (Network::Closed, Some(node))).await;
        check(app, Some(gone), (Network::Closed, None)).await;
        check(app, None, (Network::Closed, None)).await;
        check(gone, Some(node), (Network::Unknown, Some(node))).await;
    }

    #[tokio::test]
    async fn a_packet_that_was_lost_is_not_the_length_of_the_way() {
        let check = async |trips: &[Result<u64, &str>], expected: Result<u64, &str>, asked| {
            let mut made = 0;
            let found = shortest(|| {
                made += 1;
                let trip = trips[made - 1].map(Duration::from_millis);
                std::future::ready(trip.map_err(ToOwned::to_owned))
            })
            .await;
            let expected = expected.map(Duration::from_millis).map_err(ToOwned::to_owned);
            assert_eq!((found, made), (expected, asked), "{trips:?}");
        };
        check(&[Ok(1)], Ok(1), 1).await;
        check(&[Ok(1030), Ok(1)], Ok(1), 2).await;
        check(&[Ok(1030), Err("lost"), Ok(2)], Ok(2), 3).await;
        check(&[Ok(80), Ok(70), Ok(90)], Ok(70), 3).await;
        check(&[Err("shut"), Ok(1)], Err("shut"), 1).await;
    }

    #[test]
    fn a_user_namespace_is_told_by_its_map() {
        let check = |ids: &str, mapped| assert_eq!(is_mapped(ids), mapped, "{ids:?}");
        check("         0          0 4294967295\n", false);
        check("         0     131072      65536\n", true);
        check("0 1000 1\n1 100000 65535\n", true);
        check("", false);
    }
}
