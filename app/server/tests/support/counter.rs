//! The service at which tools count: an effect outside the product, whose log nobody can take back.

use crate::support::script::Word;
use anyhow::Result;
use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::Mutex;
use std::{
    collections::HashSet,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Asks whether a key was counted, and counts nothing.
const ASKS: &str = "ask";

/// Lets go of what came of a key, as a runner does of a result that is acknowledged.
const LETS_GO: &str = "acknowledge";

/// One request, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) tool: String,
    /// The key of the call: (turn, step, call, item).
    pub(crate) key: String,
    pub(crate) number: u64,
    pub(crate) at: usize,
}

impl State {
    fn let_go(&mut self, key: String) {
        self.keys.remove(&key);
        self.acknowledged.insert(key);
    }
}

#[derive(Clone)]
pub(crate) struct Counter {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    holding: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    requests: Vec<Counted>,
    keys: HashSet<String>,
    /// What was let go: a runner remembers the names of such calls, and takes none of them again.
    acknowledged: HashSet<String>,
}

impl Counter {
    pub(crate) async fn start(tasks: &Tasks) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { state: Mutex::default(), holding: watch::Sender::new(false) });
        let serving = Arc::clone(&shared);
        tasks.spawn("counter", OnExit::Log, async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Ok(Self { address, shared })
    }

    pub(crate) fn requests(&self) -> Vec<Counted> {
        self.shared.state.lock().requests.clone()
    }

    /// While it holds, the first request of every key is counted, but not answered.
    pub(crate) fn hold(&self, hold: bool) {
        self.shared.holding.send_replace(hold);
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let (reading, mut writing) = stream.into_split();
    let mut line = String::new();
    if BufReader::new(reading).read_line(&mut line).await.is_err() {
        return;
    }
    // A line that was cut off was not sent whole, and is not counted.
    let Some(counted) = line.strip_suffix('\n').and_then(parse) else { return };
    if counted.tool == ASKS {
        // Whether it came: what came of it is the same for all.
        let came = shared.state.lock().keys.contains(&counted.key);
        let _gone = writing.write_all(if came { b"counted\n" } else { b"unknown\n" }).await;
        return;
    }
    if counted.tool == LETS_GO {
        shared.state.lock().let_go(counted.key);
        let _gone = writing.write_all(b"gone\n").await;
        return;
    }
    let is_first = {
        let mut state = shared.state.lock();
        // The caller hears that its line is closed, and no result.
        if state.acknowledged.contains(&counted.key) {
            return;
        }
        let is_first = state.keys.insert(counted.key.clone());
        // A runner takes a call for the one that it has, if it comes again under its name.
        if is_first || counted.tool != Word::P.tool() {
            state.requests.push(counted);
        }
        is_first
    };
    if is_first {
        let mut holding = shared.holding.subscribe();
        if holding.wait_for(|hold| !hold).await.is_err() {
            return;
        }
    }
    // A caller that died meanwhile hears nothing.
    let _gone = writing.write_all(b"counted\n").await;
}

fn parse(line: &str) -> Option<Counted> {
    let mut words = line.split(' ');
    Some(Counted {
        tool: words.next()?.to_owned(),
        key: words.next()?.to_owned(),
        number: words.next()?.parse().ok()?,
        at: words.next()?.parse().ok()?,
    })
}
