//! What stands on the machine while the list is tried: a plugin beside it, and what is for nobody in a sandbox.

use super::{CANARY, KEY, file, install, run};
use crate::{
    processes,
    up::{Place, Up, client},
    who::Who,
};
use serde_json::{Value, json};
use std::{
    fs,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{FileTypeExt, MetadataExt, PermissionsExt, chown},
            net::{SocketAddr as UnixAddress, UnixListener},
        },
    },
    path::{Path, PathBuf},
};

/// A plugin that runs meanwhile, and what it is outside.
pub(super) struct Neighbour {
    folder: PathBuf,
    /// Its launcher, what serves its network if it has one, and its runner.
    pub(super) before: Vec<u32>,
}

impl Neighbour {
    /// Root's reaches the internet, so that somebody serves its network.
    pub(super) async fn start(up: &Up, place: &Place, who: Who) -> Self {
        let manifest = json!({"name": "neighbour", "description": "Is there.",
            "config": {"word": {"description": "A word."}}});
        let tool =
            json!({"name": "look", "description": "Looks.", "entrypoint": "run", "parameters": {}});
        let files = [
            file("manifest.json", manifest.to_string()),
            file("look/manifest.json", tool.to_string()),
            file("look/run", "#!/bin/sh\necho there\n".to_owned()),
        ];
        let egress = match who {
            Who::Root => "internet",
            Who::Ordinary => "none",
        };
        install(up, &files, egress).await;
        let url = format!("{}/v1/plugins/neighbour/config/word", up.url);
        let given = client().put(url).bearer_auth(&up.token).json(&json!({"value": CANARY}));
        assert_eq!(given.send().await.unwrap().status().as_u16(), 204);
        assert_eq!(run(up, "neighbour", "look", &json!({})).await, "there\n");
        let plugins = fs::read_dir(place.data().join("plugins")).unwrap();
        let mut folders = plugins.map(|entry| entry.unwrap().path());
        let folder = folders.find(|path| path.join("config/config.json").is_file()).unwrap();
        let mut neighbour = Self { folder, before: Vec::new() };
        neighbour.before = neighbour.processes();
        assert!(neighbour.before.len() >= 2, "{:?}", neighbour.before);
        assert_eq!(neighbour.network().is_some(), who == Who::Root, "{:?}", neighbour.before);
        neighbour
    }

    pub(super) fn bearer(&self) -> String {
        fs::read_to_string(self.path("mounted/..data/bearer")).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn network(&self) -> Option<u32> {
        self.before.iter().copied().find(|pid| processes::line(*pid).contains("\0network\0"))
    }

    /// Its first process inside.
    fn runner(&self) -> u32 {
        let mut below = self.before.iter().skip(1).copied();
        below.find(|pid| Some(*pid) != self.network()).unwrap()
    }

    /// The launcher is told the folder; the others are its children.
    pub(super) fn processes(&self) -> Vec<u32> {
        let folder = self.folder.to_str().unwrap();
        let all = processes::all();
        let is_launcher = |pid: &u32| {
            let line = processes::line(*pid);
            line.contains("famulus-runner\0launch\0") && line.contains(folder)
        };
        let mut found: Vec<u32> = all.keys().copied().filter(is_launcher).collect();
        let children = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default()
        };
        let below: Vec<String> = found.iter().map(children).collect();
        let below = below.iter().flat_map(|line| line.split_whitespace());
        found.extend(below.map(|pid| pid.parse::<u32>().unwrap()));
        found
    }
}

/// What listens and lies on the machine, for nobody in a sandbox.
pub(super) struct Around {
    tcp: TcpListener,
    tcp_v6: TcpListener,
    udp: UdpSocket,
    by_file: UnixListener,
    by_name: UnixListener,
    name: String,
    /// A file that all may read, and a folder that all may write.
    open: PathBuf,
    free: PathBuf,
    who: Who,
}

impl Around {
    pub(super) fn new(place: &Place, who: Who) -> Self {
        let path = |name: &str| place.0.join(name);
        let name = format!("famulus-hostile-{who:?}-{}", std::process::id());
        let all = |name: &str, mode| {
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::write(path("open"), CANARY).unwrap();
        fs::write(path("key"), CANARY).unwrap();
        fs::create_dir(path("free")).unwrap();
        let by_file = UnixListener::bind(path("host")).unwrap();
        all("open", 0o644);
        all("key", 0o600);
        let user = Who::user(place);
        chown(path("key"), Some(user), Some(user)).unwrap();
        all("free", 0o777);
        all("host", 0o777);
        let by_name = UnixAddress::from_abstract_name(&name).unwrap();
        let around = Self {
            tcp: TcpListener::bind("0.0.0.0:0").unwrap(),
            tcp_v6: TcpListener::bind("[::1]:0").unwrap(),
            udp: UdpSocket::bind("0.0.0.0:0").unwrap(),
            by_file,
            by_name: UnixListener::bind_addr(&by_name).unwrap(),
            name,
            open: path("open"),
            free: path("free"),
            who,
        };
        around.tcp.set_nonblocking(true).unwrap();
        around.tcp_v6.set_nonblocking(true).unwrap();
        around.udp.set_nonblocking(true).unwrap();
        around.by_file.set_nonblocking(true).unwrap();
        around.by_name.set_nonblocking(true).unwrap();
        around
    }

    /// What a program of the list is told.
    pub(super) fn told(&self, up: &Up, place: &Place, neighbour: &Neighbour) -> Value {
        let data = place.data();
        let tcp = self.tcp.local_addr().unwrap().port();
        let tcp_v6 = self.tcp_v6.local_addr().unwrap().port();
        let udp = self.udp.local_addr().unwrap().port();
        let host = address();
        let postmaster = fs::read_to_string(data.join("postgres/postmaster.pid")).unwrap();
        let postgres: u32 = postmaster.lines().next().unwrap().parse().unwrap();
        let launcher = neighbour.before[0];
        json!({
            "metadata": "169.254.169.254:80",
            "public canary": "198.51.100.10:80",
            "public names": "198.51.100.53:53",
            "ports": listening(),
            "peers": {
                "the API": up.url.trim_start_matches("http://"),
                "a port of the host": format!("127.0.0.1:{tcp}"),
                "a port of the host (6)": format!("::1:{tcp_v6}"),
                "an address of the host": format!("{host}:{tcp}"),
                "Postgres' usual port": "127.0.0.1:5432",
                "datagrams": format!("{host}:{udp}"),
            },
            "processes": {
                "famulus": process(up.child.id()),
                "Postgres": process(postgres),
                "the neighbour's launcher": process(launcher),
                "the neighbour's runner": process(neighbour.runner()),
                "the neighbour's network": process(neighbour.network().unwrap_or(launcher)),
                "the first process": process(1),
            },
            "files": {
                "the token": data.join("token"),
                "the backup key": place.0.join("key"),
                "the passwords": "/etc/shadow",
                "a file that all may read": self.open,
                "the neighbour's configuration": neighbour.path("config/config.json"),
                "the neighbour's bearer": neighbour.path("mounted/..data/bearer"),
                "the program of famulus": place.0.join("famulus"),
                "Postgres' process number": data.join("postgres/postmaster.pid"),
            },
            "folders": {
                "the home of root": "/root",
                "the data": data,
                "Postgres' data": data.join("postgres"),
                "the plugins": data.join("plugins"),
                "the neighbour": neighbour.folder,
                "a folder that all may write": self.free,
            },
            "sockets": {
                "Postgres": socket_in(&data.join("run")),
                "the neighbour's door": neighbour.path("doors/app"),
                "the neighbour's runner": neighbour.path("doors/run"),
                "the host": place.0.join("host"),
            },
            "names": {"abstract": self.name, "key": KEY},
            "users": {
                "the neighbour": fs::metadata(neighbour.path("state")).unwrap().uid(),
                "famulus": Who::user(place),
            },
        })
    }

    /// Nobody knocked, and nothing was written.
    pub(super) fn stands_as_before(&self) {
        let who = self.who;
        assert!(self.tcp.accept().is_err() && self.tcp_v6.accept().is_err(), "{who:?}: a port");
        assert!(self.udp.recv(&mut [0; 1]).is_err(), "{who:?}: a datagram");
        assert!(self.by_file.accept().is_err(), "{who:?}: a socket with a file");
        assert!(self.by_name.accept().is_err(), "{who:?}: a socket with a name");
        assert_eq!(fs::read_to_string(&self.open).unwrap(), CANARY, "{who:?}");
        assert_eq!(fs::read_dir(&self.free).unwrap().count(), 0, "{who:?}");
    }
}

/// A process by its number and its name.
fn process(pid: u32) -> Value {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    json!([pid, name.trim()])
}

/// Ports that somebody on this machine listens on.
fn listening() -> Vec<u16> {
    const LISTENS: &str = "0A";
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (own, state) = (words.next()?, words.nth(1)?);
        let (_, port) = own.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok().filter(|_| state == LISTENS)
    };
    let ports: Vec<u16> = table.lines().skip(1).filter_map(port).collect();
    assert!(!ports.is_empty(), "the API listens: {table}");
    ports
}

fn socket_in(folder: &Path) -> PathBuf {
    let mut paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_socket = |path: &PathBuf| fs::metadata(path).unwrap().file_type().is_socket();
    paths.find(is_socket).unwrap()
}

/// Where the machine is reached by others; a machine without a route has its loopback alone.
fn address() -> String {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    match socket.connect("192.0.2.1:9") {
        Ok(()) => socket.local_addr().unwrap().ip().to_string(),
        Err(_no_route) => "127.0.0.1".to_owned(),
    }
}
