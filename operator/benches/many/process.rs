//! The operator as a process of its own, as a cluster runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::Kubeconfig;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::place::{ACCOUNT, SANDBOX, SYSTEM};

const LISTEN: &str = "127.0.0.1:18080";

/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Operator {
    program: PathBuf,
    folder: PathBuf,
    child: Child,
    /// How many there were before.
    number: u32,
    begun: Instant,
    led_after: std::cell::Cell<Duration>,
}

impl Operator {
    pub(crate) async fn start(program: &Path, client: &Client) -> Self {
        let folder = std::env::temp_dir().join(format!("famulus-many-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("root-key"), "k".repeat(32)).unwrap();
        let kubeconfig = as_the_operator(client).await;
        fs::write(folder.join("kubeconfig"), kubeconfig).unwrap();
        Self::begin(program.to_owned(), folder, 0)
    }

    fn begin(program: PathBuf, folder: PathBuf, number: u32) -> Self {
        let log = fs::File::create(folder.join(format!("log-{number}"))).unwrap();
        let mut command = Command::new(&program);
        command.env_clear().stderr(log.try_clone().unwrap()).stdout(log);
        command.env("KUBECONFIG", folder.join("kubeconfig"));
        for (name, value) in [
            ("CALLBACK_HOST", "10.96.3.4"),
            ("RELEASE", "famulus"),
            ("SANDBOX_NAMESPACE", SANDBOX),
            ("SYSTEM_NAMESPACE", SYSTEM),
            ("RUNNER_IMAGE", "localhost/famulus/runner:0.1.0-slim"),
            ("RESOLVER", "10.96.3.5"),
            ("API_ADDRESS", "10.96.0.1:443"),
            ("LISTEN", LISTEN),
        ] {
            command.env(format!("FAMULUS_OPERATOR_{name}"), value);
        }
        command.env("FAMULUS_OPERATOR_ROOT_KEY_FILE", folder.join("root-key"));
        command.env("FAMULUS_OPERATOR_IDENTITY", format!("bench-{number}"));
        let child = command.spawn().unwrap();
        let led_after = std::cell::Cell::default();
        Self { program, folder, child, number, begun: Instant::now(), led_after }
    }

    /// Asks it to end, waits, and starts another one.
    pub(crate) async fn end(mut self) -> Self {
        self.terminate();
        self.gone().await;
        Self::begin(self.program, self.folder, self.number + 1)
    }

    /// Kills it, and starts another one at once.
    pub(crate) async fn kill(mut self) -> Self {
        self.child.kill().unwrap();
        self.gone().await;
        Self::begin(self.program, self.folder, self.number + 1)
    }

    pub(crate) async fn end_for_good(mut self) {
        self.terminate();
        self.gone().await;
        fs::remove_dir_all(&self.folder).unwrap();
    }

    fn terminate(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(id).status().unwrap().success());
    }

    async fn gone(&mut self) {
        while self.child.try_wait().unwrap().is_none() {
            sleep(LOOK).await;
        }
    }

    /// Waits until it leads.
    pub(crate) async fn until_works(&self) {
        while self.metric("famulus_operator_leads").await < 1.0 {
            sleep(LOOK).await;
        }
        self.led_after.set(self.begun.elapsed());
    }

    /// Waits until it has looked at so many Plugins.
    pub(crate) async fn until_looked_at(&self, count: usize) {
        self.until_works().await;
        while self.metric("famulus_operator_reconciles_total").await < count as f64 {
            sleep(LOOK).await;
        }
    }

    /// From its start until it led, once that was waited for.
    pub(crate) fn led_after(&self) -> Duration {
        self.led_after.get()
    }

    /// Its proportional set size, in KiB.
    pub(crate) fn memory(&self) -> usize {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let text = fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The sum of a metric over its labels; 0 while nobody answers.
    async fn metric(&self, name: &str) -> f64 {
        let mut text = String::new();
        let asked: std::io::Result<()> = async {
            let mut stream = TcpStream::connect(LISTEN).await?;
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")
                .await?;
            stream.read_to_string(&mut text).await.map(drop)
        }
        .await;
        if asked.is_err() {
            return 0.0;
        }
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// A kubeconfig with a token of the operator's own account.
async fn as_the_operator(client: &Client) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), SYSTEM);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(86_400),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await;
    let token = answer.unwrap().status.unwrap().token.unwrap();
    let clusters = Kubeconfig::read().unwrap().clusters;
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench", "clusters": clusters,
        "contexts": [{"name": "bench", "context": {"cluster": clusters[0].name, "user": "operator"}}],
        "users": [{"name": "operator", "user": {"token": token}}],
    });
    config.to_string()
}
