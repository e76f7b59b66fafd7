//! `famulus doctor`: what is wrong between here and a working answer, and what to do about it.
//!
//! Looks from the outside in: the address, the token and its file, whether somebody answers, who
//! the token is, whether both sides are of one version; then what the server says of itself. A
//! check that needs an earlier one which failed is left out.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use famulus_netguard::is_loopback;
use serde::Serialize;

use crate::client::Client;
use crate::connection::{Connection, TokenSource};
use crate::error::Error;
use crate::output::Output;
use crate::status;
use crate::wire::{Me, Plugin, PluginList, SandboxLevel, ServerCheck, Status};

#[derive(Clone, Debug, clap::Args)]
pub struct DoctorArgs {
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Finding {
    Good,
    /// Works, and could harm.
    Warning,
    Bad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Client,
    Server,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    side: Side,
    name: String,
    finding: Finding,
    detail: String,
    /// What to do; empty where nothing is to be done.
    remedy: String,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
}

/// Whether everything is well.
pub(crate) async fn run(
    args: DoctorArgs,
    connection: &Connection,
    output: &mut Output,
) -> Result<bool, Error> {
    let checks = examine(connection).await;
    let ok = checks.iter().all(|check| check.finding != Finding::Bad);
    if args.json {
        let report = serde_json::to_value(Report { ok, checks }).unwrap_or_default();
        output.print(&format!("{report:#}"))?;
    } else {
        output.print(&render(&checks))?;
    }
    Ok(ok)
}

async fn examine(connection: &Connection) -> Vec<Check> {
    let mut checks = vec![address(connection)];
    checks.extend(token(connection));
    let client = match Client::new(connection) {
        Ok(client) => client,
        Err(error) => {
            // Address and token have their own lines.
            if let Error::Setup { .. } = error {
                checks.push(failed("client", &error));
            }
            return checks;
        }
    };
    checks.push(server(&client).await);
    if checks.last().is_some_and(|check| check.finding == Finding::Bad) {
        return checks;
    }
    checks.push(ready(&client).await);
    match client.get::<Me>(&["v1", "me"], &[], "who the token belongs to").await {
        Ok(me) => {
            let detail = format!("{}, scope {}", me.person.name, me.scope);
            checks.push(good("account", detail));
            checks.push(version(&me.version));
        }
        Err(error) => {
            checks.push(failed("account", &error));
            return checks;
        }
    }
    match status::read::<Status>(&client).await {
        Ok(status) => checks.extend(status.checks.into_iter().map(of_server)),
        Err(error) => checks.push(failed("status", &error)),
    }
    checks.extend(plugins(&client).await);
    checks
}

/// Each plugin with what confines it, and what all of them cost a model.
async fn plugins(client: &Client) -> Vec<Check> {
    let list = match client.get::<PluginList>(&["v1", "plugins"], &[], "a list of plugins").await {
        Ok(list) => list,
        // Only the owner sees them.
        Err(error) if error.status() == Some(403) => return Vec::new(),
        // None run here, and that is as it should be.
        Err(Error::Refusal(refusal)) if refusal.status == 409 => {
            return vec![on_server("plugins", Finding::Good, refusal.detail, String::new())];
        }
        Err(error) => return vec![failed("plugins", &error)],
    };
    let mut checks = vec![on_server(
        "plugins",
        Finding::Good,
        format!(
            "{}; a model is told of them in about {} tokens, however many there are (bytes / 4)",
            list.plugins.len(),
            list.fixed_tokens
        ),
        String::new(),
    )];
    checks.extend(list.level.into_iter().flat_map(level));
    checks.extend(list.plugins.iter().map(plugin));
    checks
}

/// What sandboxes of one machine are, and what they lack.
fn level(SandboxLevel { held, lacks }: SandboxLevel) -> Vec<Check> {
    let good = |held| on_server("sandboxes", Finding::Good, held, String::new());
    let remedy = "do what it says, and start famulus again";
    let lack = |why| on_server("sandboxes", Finding::Warning, why, remedy.to_owned());
    held.into_iter().map(good).chain(lacks.into_iter().map(lack)).collect()
}

fn plugin(plugin: &Plugin) -> Check {
    let isolation = plugin.isolation.as_deref().unwrap_or("not run yet");
    let detail = format!("{} ({}), isolation: {isolation}", plugin.reason, plugin.message);
    let name = format!("plugin {}", plugin.name);
    if plugin.ready {
        return on_server(&name, Finding::Good, detail, String::new());
    }
    let remedy = format!(
        "`famulus plugin show {}` says more, and in a cluster `kubectl describe` on its Plugin",
        plugin.name
    );
    on_server(&name, Finding::Warning, detail, remedy)
}

fn on_server(name: &str, finding: Finding, detail: String, remedy: String) -> Check {
    Check { side: Side::Server, name: name.to_owned(), finding, detail, remedy }
}

fn address(connection: &Connection) -> Check {
    match connection.address() {
        Ok(url) if url.scheme() == "http" && !is_loopback(&url) => Check {
            side: Side::Client,
            name: "address".to_owned(),
            finding: Finding::Warning,
            detail: format!("{url} is not encrypted: token and messages can be read on the way"),
            remedy: "put a proxy with TLS before the server and use its https address".to_owned(),
        },
        Ok(url) => good("address", url.to_string()),
        Err(error) => failed("address", &error),
    }
}

/// Whether a file of this mode can be read by others.
fn is_open(mode: u32, is_ours: bool) -> bool {
    mode & if is_ours { 0o077 } else { 0o007 } != 0
}

/// Whether there is a token, and whether its file is closed to others.
fn token(connection: &Connection) -> Vec<Check> {
    let mut checks = Vec::new();
    match connection.token.read() {
        Ok(_) => checks.push(good("token", connection.token.describe())),
        Err(error) => checks.push(failed("token", &error)),
    }
    if let TokenSource::File(path) = &connection.token
        && let Ok(metadata) = std::fs::metadata(path)
    {
        let mode = metadata.permissions().mode() & 0o777;
        // What somebody else put there for us, as a cluster mounts a Secret, is closed by its group.
        let is_ours =
            std::fs::metadata("/proc/self").map_or(true, |own| own.uid() == metadata.uid());
        let (shown, open) = (path.display(), is_open(mode, is_ours));
        checks.push(Check {
            side: Side::Client,
            name: "token file".to_owned(),
            finding: if open { Finding::Bad } else { Finding::Good },
            detail: format!(
                "{shown} has mode {mode:04o}{}",
                if open { ": others on this machine can read it" } else { "" }
            ),
            remedy: if open {
                format!("chmod 600 {shown}, and make a new token if others may have read it")
            } else {
                String::new()
            },
        });
    }
    checks
}

async fn server(client: &Client) -> Check {
    match client.probe("livez").await {
        Ok(200) => good("server", "answers".to_owned()),
        Ok(other) => bad(
            "server",
            format!("{} answers {other} on /livez", client.address()),
            "check that the address is that of a Famulus server",
        ),
        Err(error) => failed("server", &error),
    }
}

async fn ready(client: &Client) -> Check {
    match client.probe("readyz").await {
        Ok(200) => good("ready", "takes messages".to_owned()),
        Ok(other) => bad(
            "ready",
            format!("/readyz answers {other}"),
            "wait until the start has finished; the server's log says what it waits for",
        ),
        Err(error) => failed("ready", &error),
    }
}

fn version(server: &str) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    if server == ours {
        return good("version", ours.to_owned());
    }
    bad(
        "version",
        format!("this program is {ours} and the server is {server}"),
        "use the program of the server's version",
    )
}

fn of_server(check: ServerCheck) -> Check {
    Check {
        side: Side::Server,
        name: check.name,
        finding: if check.ok { Finding::Good } else { Finding::Bad },
        detail: check.detail.unwrap_or_default(),
        remedy: check.remedy.unwrap_or_default(),
    }
}

fn good(name: &str, detail: String) -> Check {
    Check {
        side: Side::Client,
        name: name.to_owned(),
        finding: Finding::Good,
        detail,
        remedy: String::new(),
    }
}

fn bad(name: &str, detail: String, remedy: &str) -> Check {
    Check {
        side: Side::Client,
        name: name.to_owned(),
        finding: Finding::Bad,
        detail,
        remedy: remedy.to_owned(),
    }
}

/// Our errors say what to do behind the semicolon.
fn failed(name: &str, error: &Error) -> Check {
    let text = error.to_string();
    let (detail, remedy) = text.split_once("; ").unwrap_or((&text, ""));
    bad(name, detail.to_owned(), remedy)
}

fn render(checks: &[Check]) -> String {
    let mut lines = Vec::new();
    for check in checks {
        let sign = match check.finding {
            Finding::Good => "ok  ",
            Finding::Warning => "warn",
            Finding::Bad => "FAIL",
        };
        lines.push(format!("{sign}  {}: {}", check.name, check.detail));
        if check.finding != Finding::Good && !check.remedy.is_empty() {
            lines.push(format!("      do: {}", check.remedy));
        }
    }
    lines.push(verdict(checks));
    lines.join("\n")
}

/// The whole in one line.
fn verdict(checks: &[Check]) -> String {
    let count = |finding| checks.iter().filter(|check| check.finding == finding).count();
    let (failed, warned) = (count(Finding::Bad), count(Finding::Warning));
    let failures = if failed == 1 { "1 check failed" } else { &format!("{failed} checks failed") };
    let warnings = if warned == 1 { "1 warning" } else { &format!("{warned} warnings") };
    match (failed, warned) {
        (0, 0) => "everything is well".to_owned(),
        (0, _) => format!("it works, with {warnings}"),
        (_, 0) => failures.to_owned(),
        (_, _) => format!("{failures}, and {warnings}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    fn connection(url: &str, token: &Path) -> Connection {
        Connection {
            url: url.to_owned(),
            token: TokenSource::File(token.to_owned()),
            data_dir: PathBuf::new(),
            colour: false,
        }
    }

    #[test]
    fn a_token_that_others_can_read_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "fam_x").unwrap();
        let check = |mode: u32, expected: Finding| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let checks = token(&connection("http://127.0.0.1:3000", &path));
            assert_eq!(checks[1].finding, expected, "{mode:o}");
        };
        check(0o600, Finding::Good);
        check(0o400, Finding::Good);
        check(0o640, Finding::Bad);
        check(0o604, Finding::Bad);
        assert!(!is_open(0o440, false) && is_open(0o444, false), "mounted for us");
    }

    #[tokio::test]
    async fn without_address_or_token_nothing_else_is_tried() {
        let missing = Path::new("/nonexistent/token");
        let check = async |url: &str, expected: &[(&str, Finding)]| {
            let checks = examine(&connection(url, missing)).await;
            let found: Vec<(&str, Finding)> =
                checks.iter().map(|check| (check.name.as_str(), check.finding)).collect();
            assert_eq!(found, expected);
        };
        check("nonsense", &[("address", Finding::Bad), ("token", Finding::Bad)]).await;
        check("http://10.0.0.1", &[("address", Finding::Warning), ("token", Finding::Bad)]).await;
    }

    #[test]
    fn each_failure_says_what_to_do() {
        let checks = [
            good("address", "http://127.0.0.1:3000/".to_owned()),
            failed("token", &Error::TokenShape { origin: "/data/token".to_owned() }),
            of_server(ServerCheck {
                name: "disk".to_owned(),
                ok: false,
                detail: Some("full".to_owned()),
                remedy: Some("make room".to_owned()),
            }),
        ];
        assert_eq!(
            render(&checks),
            "ok    address: http://127.0.0.1:3000/\n\
             FAIL  token: /data/token holds no token\n      do: `famulus token` shows the right one\n\
             FAIL  disk: full\n      do: make room\n\
             2 checks failed"
        );
    }

    #[test]
    fn all_is_well_only_without_a_warning() {
        let last = |checks: &[Check]| render(checks).lines().last().unwrap().to_owned();
        let warning =
            || on_server("plugin dice", Finding::Warning, "NotBuilt".to_owned(), String::new());
        let failure = failed("token", &Error::TokenShape { origin: "x".to_owned() });
        assert_eq!(last(&[good("server", "answers".to_owned())]), "everything is well");
        assert_eq!(last(&[warning()]), "it works, with 1 warning");
        assert_eq!(last(&[warning(), warning()]), "it works, with 2 warnings");
        assert_eq!(last(&[warning(), failure]), "1 check failed, and 1 warning");
    }
}
