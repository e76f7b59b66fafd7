//! What stands beside one machine: an index of packages that wants a password, and a git server. Both listen on
//! an address that is private, so that a sandbox reaches them only where the owner named them.

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_plugin_life::{Outside, Served, ToldBy};
use std::{
    fs,
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
};
use tokio::net::TcpListener;

/// What the index asks for.
pub(crate) const PASSWORD: &str = "canary-of-the-index";
const READER: &str = "reader";

/// Where the index is on its server.
const BASE: &str = "/private";

/// Both servers, until this is dropped.
pub(crate) struct Servers {
    pub(crate) outside: Outside,
    pub(crate) index: SocketAddr,
    pub(crate) git: SocketAddr,
    /// What the owner gives builds.
    credentials: PathBuf,
    tasks: Tasks,
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.tasks.shutdown();
    }
}

impl Servers {
    /// What they serve, and the credentials, lie in this folder.
    pub(crate) async fn start(folder: &Path) -> Self {
        let [packages, repositories, credentials] =
            ["index", "repositories", "credentials"].map(|name| folder.join(name));
        for made in [&packages, &repositories, &credentials] {
            fs::create_dir_all(made).unwrap();
        }
        let tasks = Tasks::new();
        let (listener, index) = listen().await;
        let router = Router::new().fallback(answer).with_state(packages.clone());
        tasks.spawn("index", OnExit::Log, async move {
            axum::serve(listener, router).await.unwrap();
        });
        let (listener, git) = listen().await;
        tasks.spawn("git", OnExit::Log, serve_repositories(listener, repositories.clone()));

        let netrc = format!("machine {} login {READER} password {PASSWORD}\n", index.ip());
        fs::write(credentials.join("netrc"), netrc).unwrap();
        let npmrc = format!("//{index}{BASE}/npm/:_auth={}\n", login());
        fs::write(credentials.join("npmrc"), npmrc).unwrap();
        let outside = Outside {
            packages: Served { folder: packages, url: format!("http://{index}{BASE}") },
            told_by: ToldBy::Owner,
            git: Served { folder: repositories, url: format!("git://{git}") },
        };
        Self { outside, index, git, credentials, tasks }
    }

    /// Has the owner name them.
    pub(crate) fn named(&self, mut famulus: Command) -> Command {
        famulus
            .env("FAMULUS_PLUGINS__ALLOW_HOSTS", format!("[\"{}\"]", self.git))
            .env("FAMULUS_PLUGINS__PACKAGES__PYTHON", self.outside.python())
            .env("FAMULUS_PLUGINS__PACKAGES__NPM", self.outside.npm())
            .env("FAMULUS_PLUGINS__PACKAGES__CREDENTIALS", &self.credentials);
        famulus
    }
}

/// Somebody who listens where a sandbox could come, if it may.
pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((own_address(), 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// By a loopback address a sandbox would reach itself.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: the kernel says from which address it would be.
    let found = socket.connect("203.0.113.1:9").and_then(|()| socket.local_addr());
    match found {
        Ok(address) => address.ip(),
        Err(error) => panic!(
            "this machine has no address but that of itself ({error}), and a sandbox reaches no server at that: \
             give it an interface with an address and a route"
        ),
    }
}

/// Name and password, as a header has them.
fn login() -> String {
    STANDARD.encode(format!("{READER}:{PASSWORD}"))
}

/// Files below the folder, for whoever has the password.
async fn answer(
    State(folder): State<PathBuf>,
    request: Request,
) -> (StatusCode, HeaderMap, Vec<u8>) {
    let mut headers = HeaderMap::new();
    let given = request.headers().get(header::AUTHORIZATION);
    if given.is_none_or(|given| *given != format!("Basic {}", login())) {
        let asked = "Basic realm=packages".parse().unwrap();
        headers.insert(header::WWW_AUTHENTICATE, asked);
        return (StatusCode::UNAUTHORIZED, headers, Vec::new());
    }
    let path = request.uri().path();
    let name = path.strip_prefix(BASE).unwrap_or_default().trim_start_matches('/');
    let mut place = folder.join(name);
    if path.ends_with('/') {
        place.push("index.html");
        headers.insert(header::CONTENT_TYPE, "text/html".parse().unwrap());
    }
    let stays = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    match fs::read(place) {
        Ok(content) if stays => (StatusCode::OK, headers, content),
        Ok(_) | Err(_) => (StatusCode::NOT_FOUND, HeaderMap::new(), Vec::new()),
    }
}

/// One connection after another. Git's daemon cannot be told to choose a port by itself.
async fn serve_repositories(listener: TcpListener, folder: PathBuf) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let socket = socket.into_std().unwrap();
        socket.set_nonblocking(false).unwrap();
        let copy = || Stdio::from(OwnedFd::from(socket.try_clone().unwrap()));
        let mut daemon = tokio::process::Command::new("git");
        daemon.args(["daemon", "--inetd", "--export-all"]);
        daemon.arg(format!("--base-path={}", folder.display())).arg(&folder);
        daemon.stdin(copy()).stdout(copy()).stderr(Stdio::null()).kill_on_drop(true);
        daemon.status().await.unwrap();
    }
}
