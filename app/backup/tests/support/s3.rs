//! A real store that speaks S3, in a folder that is thrown away.

use std::{
    env, fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

pub(crate) const ACCESS: &str = "famulus-test";
pub(crate) const SECRET: &str = "a-secret-of-this-test";
pub(crate) const BUCKET: &str = "backups";

const PROGRAM: &str = "versitygw";
const PATIENCE: Duration = Duration::from_secs(30);

/// Ends with its value.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
    folder: PathBuf,
    /// Certificate and key, in PEM.
    tls: Option<(PathBuf, PathBuf)>,
    /// Whether the folder is removed with it.
    scratch: bool,
}

impl Server {
    /// One that has the bucket [`BUCKET`], on loopback.
    pub(crate) fn start() -> Self {
        Self::start_on(Ipv4Addr::LOCALHOST.into())
    }

    /// The same on another address.
    pub(crate) fn start_on(address: IpAddr) -> Self {
        let address = free(address);
        let name = format!("famulus-s3-{}-{}", std::process::id(), address.port());
        let mut server = Self::in_folder(&env::temp_dir().join(name), address, None);
        server.scratch = true;
        server
    }

    /// One that keeps all it has in a folder, and speaks TLS where it has a certificate and a key.
    pub(crate) fn in_folder(
        folder: &Path,
        address: SocketAddr,
        tls: Option<(PathBuf, PathBuf)>,
    ) -> Self {
        fs::create_dir_all(folder.join("objects").join(BUCKET)).unwrap();
        let process = run(folder, address, tls.as_ref());
        let server = Self { process, address, folder: folder.to_owned(), tls, scratch: false };
        server.wait();
        server
    }

    pub(crate) fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Where the objects of the bucket are, as files.
    pub(crate) fn objects(&self) -> PathBuf {
        self.folder.join("objects").join(BUCKET)
    }

    /// Ends it at once, as a machine that loses power does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again, with what it has.
    pub(crate) fn restart(&mut self) {
        self.process = run(&self.folder, self.address, self.tls.as_ref());
        self.wait();
    }

    fn wait(&self) {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(begun.elapsed() < PATIENCE, "{PROGRAM} does not listen on {}", self.address);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed.
        let _gone = self.process.kill();
        let _gone = self.process.wait();
        if self.scratch {
            let _left = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Whoever takes the port meanwhile makes the test fail, and not pass.
pub(crate) fn free(address: IpAddr) -> SocketAddr {
    TcpListener::bind((address, 0)).unwrap().local_addr().unwrap()
}

fn run(folder: &Path, address: SocketAddr, tls: Option<&(PathBuf, PathBuf)>) -> Child {
    let mut command = Command::new(program());
    command.args(["--quiet", "--port", &address.to_string(), "--access", ACCESS]);
    command.args(["--secret", SECRET]);
    if let Some((certificate, key)) = tls {
        command.arg("--cert").arg(certificate).arg("--key").arg(key);
    }
    // What a file cannot say of an object stands beside the files, whatever the disk can do.
    let sidecar = folder.join("sidecar");
    fs::create_dir_all(&sidecar).unwrap();
    command.args(["posix", "--sidecar"]).arg(sidecar).arg(folder.join("objects"));
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{PROGRAM} cannot be started: {error}"))
}

/// Named by the variable, or on the path.
fn program() -> PathBuf {
    let named = env::var_os("FAMULUS_TEST_S3").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = named.into_iter().chain(env::split_paths(&path).map(|at| at.join(PROGRAM)));
    places.find(|place| place.is_file()).unwrap_or_else(|| {
        panic!("{PROGRAM} is not on the path; set FAMULUS_TEST_S3 to what `cargo xtask test` built")
    })
}
