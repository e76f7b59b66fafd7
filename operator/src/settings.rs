//! What the operator is told by its environment (`FAMULUS_OPERATOR_…`).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use famulus_crds::plugin::{Amounts, Flavour, Quantity, Resources};
use famulus_settings::{Error, Given, Program};
use k8s_openapi::api::core::v1::Toleration;
use serde::de::DeserializeOwned;

const OPERATOR: Program =
    Program { prefix: "FAMULUS_OPERATOR_", manual: "docs/ARCHITECTURE.md, the operator" };

/// The whole of it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where Plugins live, and all that is made for them.
    pub sandbox_namespace: String,
    /// Where the Lease lives.
    pub system_namespace: String,
    pub release: String,
    /// Who of several operators this one is: the name of its Pod.
    pub identity: String,
    /// The file with the installation's root key.
    pub root_key_file: PathBuf,
    /// The file with the key of backups, where there are any.
    pub keeper_key_file: Option<PathBuf>,
    /// Health and metrics.
    pub listen: SocketAddr,
    /// A log filter, and whether lines are JSON.
    pub log: String,
    pub log_json: bool,
    /// Base URL of a collector of traces.
    pub otlp_endpoint: Option<String>,
    pub pods: Pods,
}

/// What every Pod of the sandbox is made with.
#[derive(Clone, Debug)]
pub struct Pods {
    pub release: String,
    pub images: Images,
    /// Where the app takes bundles and results.
    pub callback: SocketAddr,
    /// What a Pod must not reach: the API server, and a live port of the app.
    pub denied: [SocketAddr; 2],
    /// The only resolver that a Pod asks.
    pub resolver: IpAddr,
    pub user_namespaces: UserNamespaces,
    /// The RuntimeClass where a Plugin names none.
    pub runtime_class: Option<String>,
    /// RuntimeClasses whose Pods do not start in a user namespace, and have a kernel of their own.
    pub own_kernel_classes: Vec<String>,
    /// Left out, it is the cluster's default.
    pub storage_class: Option<String>,
    pub state_size: Quantity,
    /// Run plugins although their network was not found closed.
    pub accept_open_network: bool,
    /// What a runner gets where its Plugin does not say.
    pub resources: Resources,
    /// What the containers of a build get.
    pub build_resources: Resources,
    /// User ids, one for each Plugin.
    pub uids: RangeInclusive<i64>,
    pub pull_secrets: Vec<String>,
    pub node_selector: BTreeMap<String, String>,
    pub tolerations: Vec<Toleration>,
    /// Private hosts with port that builds may fetch from.
    pub allow_hosts: Vec<String>,
    pub packages: Packages,
    /// A Secret of the sandbox with the credentials for private repositories.
    pub repositories: Option<String>,
}

/// Where builds have packages from, instead of the public indexes.
#[derive(Clone, Debug, Default)]
pub struct Packages {
    /// An index of Python packages.
    pub python: Option<String>,
    /// A registry of npm.
    pub npm: Option<String>,
    /// A Secret of the sandbox with the credentials for them, under `netrc` and `npmrc`.
    pub secret: Option<String>,
}

/// The images in which plugins are built and run.
#[derive(Clone, Debug)]
pub struct Images {
    /// For Plugins that name none.
    pub chosen: String,
    pub slim: String,
    pub full: String,
}

impl Images {
    pub fn of(&self, asked: Option<Flavour>) -> &str {
        match asked {
            None => &self.chosen,
            Some(Flavour::Slim) => &self.slim,
            Some(Flavour::Full) => &self.full,
        }
    }
}

/// Whether Pods get a user namespace, in which their user ids mean nothing on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserNamespaces {
    /// A Pod that gets none runs nothing.
    Required,
    /// Where the node has none, Pods run without, and a condition says so.
    Preferred,
    Off,
}

impl FromStr for UserNamespaces {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "Required" => Ok(Self::Required),
            "Preferred" => Ok(Self::Preferred),
            "Off" => Ok(Self::Off),
            _ => Err(()),
        }
    }
}

impl Settings {
    /// Reads them from the variables of a process. A name that is not known is an error: a guard
    /// that was mistyped would not be one.
    pub fn read(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, Error> {
        // An empty value is what a chart writes for nothing.
        let all: BTreeMap<OsString, OsString> =
            variables.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        // What Kubernetes tells every Pod.
        let told = |name: &str| all.get(OsStr::new(name)).and_then(|value| value.to_str());
        let host = told("HOSTNAME").unwrap_or("operator").to_owned();
        let api = told("KUBERNETES_SERVICE_HOST").zip(told("KUBERNETES_SERVICE_PORT"));
        let api = api
            .and_then(|(host, port)| Some(SocketAddr::new(host.parse().ok()?, port.parse().ok()?)));
        let mut given = Given::of(OPERATOR, all);
        let callback: IpAddr = given.needed("CALLBACK_HOST", "an IP address")?;
        let port = "a port";
        let api = given.read("API_ADDRESS", ADDRESS)?.or(api);
        let api = api.ok_or_else(|| OPERATOR.missing("API_ADDRESS"))?;
        let canary = SocketAddr::new(callback, given.or("CANARY_PORT", 3003, port)?);
        let release: String = given.needed("RELEASE", TEXT)?;
        let settings = Self {
            sandbox_namespace: given.needed("SANDBOX_NAMESPACE", TEXT)?,
            system_namespace: given.needed("SYSTEM_NAMESPACE", TEXT)?,
            release: release.clone(),
            identity: given.or("IDENTITY", host, TEXT)?,
            root_key_file: given.needed("ROOT_KEY_FILE", "a file")?,
            keeper_key_file: given.read("KEEPER_KEY_FILE", "a file")?,
            listen: given.or("LISTEN", SocketAddr::from(([0, 0, 0, 0], 8080)), ADDRESS)?,
            log: given.or("LOG", "info".to_owned(), "a log filter")?,
            log_json: given.or("LOG_JSON", true, BOOL)?,
            otlp_endpoint: given.read("OTLP_ENDPOINT", "a URL")?,
            pods: Pods {
                release,
                images: images(&mut given)?,
                callback: SocketAddr::new(callback, given.or("CALLBACK_PORT", 3002, port)?),
                denied: [api, canary],
                resolver: given.needed("RESOLVER", "an IP address")?,
                user_namespaces: given.or(
                    "USER_NAMESPACES",
                    UserNamespaces::Preferred,
                    "Required, Preferred or Off",
                )?,
                runtime_class: given.read("RUNTIME_CLASS", TEXT)?,
                own_kernel_classes: given
                    .list("OWN_KERNEL_CLASSES", ',', LIST)?
                    .unwrap_or_else(|| vec!["gvisor".to_owned(), "runsc".to_owned()]),
                storage_class: given.read("STORAGE_CLASS", TEXT)?,
                state_size: Quantity(given.or("STATE_SIZE", "1Gi".to_owned(), "an amount")?),
                accept_open_network: given.or("ACCEPT_OPEN_NETWORK", false, BOOL)?,
                resources: given
                    .with("RESOURCES", AMOUNTS, json)?
                    .unwrap_or_else(default_resources),
                build_resources: given
                    .with("BUILD_RESOURCES", AMOUNTS, json)?
                    .unwrap_or_else(default_build_resources),
                uids: given
                    .with("UID_RANGE", "two user ids, as 20000-65533", range)?
                    .unwrap_or(20_000..=65_533),
                pull_secrets: given.list("PULL_SECRETS", ',', LIST)?.unwrap_or_default(),
                node_selector: given
                    .with("NODE_SELECTOR", "JSON with labels", json)?
                    .unwrap_or_default(),
                tolerations: given
                    .with("TOLERATIONS", "JSON with tolerations", json)?
                    .unwrap_or_default(),
                allow_hosts: given.list("ALLOW_HOSTS", ',', LIST)?.unwrap_or_default(),
                packages: Packages {
                    python: given.with("PACKAGES_PYTHON", INDEX, index)?,
                    npm: given.with("PACKAGES_NPM", INDEX, index)?,
                    secret: given.read("PACKAGES_SECRET", TEXT)?,
                },
                repositories: given.read("REPOSITORIES_SECRET", TEXT)?,
            },
        };
        given.nothing_left()?;
        settings.mappable()
    }

    /// A Pod's user namespace maps 65,536 ids. Above them it does not start.
    fn mappable(self) -> Result<Self, Error> {
        let last = *self.pods.uids.end();
        if last > LAST_MAPPED && self.pods.user_namespaces != UserNamespaces::Off {
            let value = format!("{}-{last}", self.pods.uids.start());
            let wanted = "ids up to 65535, since a user namespace has no others";
            return Err(OPERATOR.wrong("UID_RANGE", value, wanted));
        }
        Ok(self)
    }
}

/// An installation with an image of its own has that one alone.
fn images(given: &mut Given) -> Result<Images, Error> {
    let chosen: String = given.needed("RUNNER_IMAGE", IMAGE)?;
    Ok(Images {
        slim: given.or("RUNNER_IMAGE_SLIM", chosen.clone(), IMAGE)?,
        full: given.or("RUNNER_IMAGE_FULL", chosen.clone(), IMAGE)?,
        chosen,
    })
}

/// The greatest id in a Pod's user namespace.
const LAST_MAPPED: i64 = 65_535;

const TEXT: &str = "a name";
const IMAGE: &str = "the name of an image";
const BOOL: &str = "true or false";
const LIST: &str = "names with `,` between";
const INDEX: &str = "the URL of a package index without a password, which belongs into the Secret \
                     of PACKAGES_SECRET";
const AMOUNTS: &str = "JSON with requests and limits";
const ADDRESS: &str = "an IP address with a port";

/// Enough for a script and its interpreter; a call that wants more says so in its Plugin.
fn default_resources() -> Resources {
    Resources {
        requests: Some(amounts(Some("20m"), "64Mi", "64Mi")),
        limits: Some(amounts(None, "256Mi", "1Gi")),
    }
}

/// Init scripts compile and unpack.
fn default_build_resources() -> Resources {
    Resources {
        requests: Some(amounts(Some("50m"), "64Mi", "64Mi")),
        limits: Some(amounts(None, "1Gi", "2Gi")),
    }
}

/// Processors are no limit by default: who has used one up is held back, and a runner that is to end its tool with it.
fn amounts(cpu: Option<&str>, memory: &str, disk: &str) -> Amounts {
    let amount = |text: &str| Some(Quantity(text.to_owned()));
    Amounts { cpu: cpu.and_then(amount), memory: amount(memory), ephemeral_storage: amount(disk) }
}

/// Two user ids, of which the first is the lower.
fn range(text: &str) -> Option<RangeInclusive<i64>> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first > 0 && first <= last && last < 1 << 31).then_some(first..=last)
}

/// It stands in Pod specs, so that nothing in it may be secret.
fn index(text: &str) -> Option<String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#']).next()?;
    (!host.is_empty() && !text.contains(['@', ' ', '?'])).then(|| text.to_owned())
}

fn json<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let needed = [
            ("CALLBACK_HOST", "10.96.3.4"),
            ("RELEASE", "famulus"),
            ("SANDBOX_NAMESPACE", "famulus-sandbox"),
            ("SYSTEM_NAMESPACE", "famulus"),
            ("ROOT_KEY_FILE", "/run/key"),
            ("RUNNER_IMAGE", "localhost/famulus/runner:0.1.0-slim"),
            ("RESOLVER", "10.96.3.5"),
        ];
        let mut all: BTreeMap<String, &str> = BTreeMap::new();
        for (name, value) in needed.iter().chain(variables) {
            all.insert(format!("{}{name}", OPERATOR.prefix), value);
        }
        let foreign =
            [("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("KUBERNETES_SERVICE_PORT", "443")];
        let all = all.into_iter().chain(foreign.map(|(name, value)| (name.to_owned(), value)));
        Settings::read(all.map(|(name, value)| (name.into(), value.into())))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_said_is_the_default() {
        let settings = read(&[("STORAGE_CLASS", "")]).unwrap();
        assert_eq!(settings.pods.callback.to_string(), "10.96.3.4:3002");
        let denied = settings.pods.denied.map(|address| address.to_string());
        assert_eq!(denied, ["10.96.0.1:443", "10.96.3.4:3003"]);
        assert_eq!(settings.pods.uids, 20_000..=65_533);
        assert_eq!(settings.pods.user_namespaces, UserNamespaces::Preferred);
        assert_eq!(settings.pods.storage_class, None);
        assert!(!settings.pods.accept_open_network);
    }

    #[test]
    fn a_mistake_is_named() {
        let check = |name: &str, value: &str, expected: &str| {
            assert_eq!(read(&[(name, value)]).unwrap_err(), expected);
        };
        check(
            "ACCEPT_OPEN_NETWORKS",
            "true",
            "FAMULUS_OPERATOR_ACCEPT_OPEN_NETWORKS is no setting; remove it, or correct its name",
        );
        check(
            "USER_NAMESPACES",
            "required",
            "FAMULUS_OPERATOR_USER_NAMESPACES is `required`; write Required, Preferred or Off",
        );
        check(
            "UID_RANGE",
            "0-5",
            "FAMULUS_OPERATOR_UID_RANGE is `0-5`; write two user ids, as 20000-65533",
        );
        check(
            "UID_RANGE",
            "200000-265535",
            "FAMULUS_OPERATOR_UID_RANGE is `200000-265535`; write ids up to 65535, since a user \
             namespace has no others",
        );
        check(
            "RESOLVER",
            "$(FAMULUS_RESOLVER_SERVICE_HOST)",
            "FAMULUS_OPERATOR_RESOLVER is `$(FAMULUS_RESOLVER_SERVICE_HOST)`: the Service that it \
             names did not exist when this Pod started; install the Service, and delete the Pod",
        );
        check(
            "PACKAGES_PYTHON",
            "https://me:secret@pypi.example/simple/",
            "FAMULUS_OPERATOR_PACKAGES_PYTHON is `https://me:secret@pypi.example/simple/`; write the \
             URL of a package index without a password, which belongs into the Secret of \
             PACKAGES_SECRET",
        );
        check(
            "RESOURCES",
            "{",
            "FAMULUS_OPERATOR_RESOURCES is `{`; write JSON with requests and limits",
        );
    }
}
