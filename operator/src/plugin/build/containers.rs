//! The containers of the sandbox: one image, one program, four things that it does.

use std::collections::BTreeMap;

use famulus_crds::plugin::{Amounts, EgressMode, Resources};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, ExecAction, HTTPGetAction,
    Lifecycle, LifecycleHandler, ObjectFieldSelector, Pod, Probe, ResourceRequirements,
    SecurityContext, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::plan::Volume;
use super::super::quantity;
use super::mounted::PASSWD;
use super::{BuildInput, pod};
use crate::settings::Packages;

/// Looks at the network, first of all.
pub const PROBE: &str = "probe";
/// Fetches or writes the files, and makes a bundle of them. No code of the plugin runs there.
pub const BUNDLE: &str = "bundle";
/// Unpacks the bundle and runs the plugin's init script.
pub const BUILD: &str = "build";
/// Runs tools.
pub const RUNNER: &str = "runner";

/// Whether the plugin runs in whatever network there is.
const ACCEPTS: &str = "ACCEPT_OPEN_NETWORK";

/// Where the runner listens.
const PORT: i32 = 8090;

const PROGRAM: &str = "/usr/local/bin/famulus-runner";

/// Where credentials for packages are, as files.
const CREDENTIALS: &str = "/run/famulus/packages";
/// Where those for private repositories are.
const REPOSITORIES: &str = "/run/famulus/repositories";

/// Files on a state volume at most; ext4 on one GiB has 65,536 inodes.
const STATE_FILES: u64 = 50_000;

/// The part of a state volume that a plugin may fill: what is left keeps revisions switchable.
const STATE_SHARE: f64 = 0.9;

pub(super) fn probe(input: BuildInput<'_>) -> Container {
    container(input, PROBE, &input.valid.resources, &[])
}

/// `is_fetched`: from a repository, which may want to know who asks. Programs that are told want to know who they
/// are themselves.
pub(super) fn bundle(input: BuildInput<'_>, is_fetched: bool) -> Container {
    let mounts = [("order", "/run/famulus/build", ReadOnly), ("work", "/work", Writable)];
    let mut bundle = container(input, BUNDLE, &input.pods.build_resources, &mounts);
    if !is_fetched || input.pods.repositories.is_none() {
        return bundle;
    }
    let folder = variable("REPOSITORIES_CREDENTIALS", REPOSITORIES.to_owned());
    bundle.env.get_or_insert_default().push(folder);
    with_passwd(with_secret(bundle, pod::REPOSITORIES, REPOSITORIES), "order")
}

pub(super) fn build(input: BuildInput<'_>) -> Container {
    let mounts = [
        ("work", "/work", ReadOnly),
        ("config", "/run/famulus/mounted", ReadOnly),
        ("state", "/state", Writable),
        ("plugins", "/plugins", Writable),
    ];
    let build = container(input, BUILD, &input.pods.build_resources, &mounts);
    with_passwd(with_packages(build, input), "config")
}

pub(super) fn runner(input: BuildInput<'_>) -> Container {
    let mounts = [
        ("mounted", "/run/famulus/mounted", ReadOnly),
        ("kept", "/run/famulus/kept", Writable),
        ("state", "/state", Writable),
        ("plugins", "/plugins", Writable),
    ];
    let health = HTTPGetAction {
        path: Some("/health".to_owned()),
        port: IntOrString::Int(PORT),
        ..HTTPGetAction::default()
    };
    let mut container = Container {
        ports: Some(vec![ContainerPort {
            name: Some("calls".to_owned()),
            container_port: PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        readiness_probe: Some(Probe {
            http_get: Some(health),
            period_seconds: Some(2),
            timeout_seconds: Some(2),
            failure_threshold: Some(3),
            ..Probe::default()
        }),
        lifecycle: Some(heard()),
        ..container(input, RUNNER, &input.valid.resources, &mounts)
    };
    // Without a volume that stays it has its revision from the app.
    if input.plan.volume == Volume::Scratch {
        let app = variable("BUNDLES", format!("http://{}", input.pods.callback));
        container.env.get_or_insert_default().push(app);
    }
    if builds_in_runner(input) {
        container = with_packages(container, input);
    }
    with_passwd(container, "mounted")
}

/// The first process of a container hears nothing before it wants to: a runner that was deleted while it
/// started would stay for all of its grace. So it is told when it listens, which is when it hears.
fn heard() -> Lifecycle {
    let await_listener = ExecAction { command: Some([PROGRAM, "await"].map(str::to_owned).into()) };
    let pre_stop = LifecycleHandler { exec: Some(await_listener), ..LifecycleHandler::default() };
    Lifecycle { pre_stop: Some(pre_stop), ..Lifecycle::default() }
}

/// Whether the runner builds its revision itself, where indexes can be reached.
pub(super) fn builds_in_runner(input: BuildInput<'_>) -> bool {
    input.plan.volume == Volume::Scratch && input.plan.egress == EgressMode::Internet
}

/// Of one in which a build runs.
fn with_packages(mut container: Container, input: BuildInput<'_>) -> Container {
    let Packages { python, npm, secret } = &input.pods.packages;
    let folder = secret.as_ref().map(|_| CREDENTIALS.to_owned());
    let told =
        [("PACKAGES_PYTHON", python), ("PACKAGES_NPM", npm), ("PACKAGES_CREDENTIALS", &folder)];
    let told = told.into_iter().filter_map(|(name, value)| Some(variable(name, value.clone()?)));
    container.env.get_or_insert_default().extend(told);
    match folder {
        Some(folder) => with_secret(container, pod::CREDENTIALS, &folder),
        None => container,
    }
}

fn with_secret(mut container: Container, volume: &str, path: &str) -> Container {
    container.volume_mounts.get_or_insert_default().push(VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    });
    container
}

/// One file over that of the image. It is never refreshed, and never changes.
fn with_passwd(mut container: Container, volume: &str) -> Container {
    container.volume_mounts.get_or_insert_default().push(VolumeMount {
        name: volume.to_owned(),
        mount_path: "/etc/passwd".to_owned(),
        sub_path: Some(PASSWD.to_owned()),
        read_only: Some(true),
        ..VolumeMount::default()
    });
    container
}

#[derive(Clone, Copy)]
enum Access {
    ReadOnly,
    Writable,
}
use Access::{ReadOnly, Writable};

fn container(
    input: BuildInput<'_>,
    name: &str,
    resources: &Resources,
    mounts: &[(&str, &str, Access)],
) -> Container {
    let step = (name != RUNNER).then(|| name.to_owned());
    let temporary = ("tmp", "/tmp", Writable);
    let mount = |(volume, path, access): &(&str, &str, Access)| VolumeMount {
        name: (*volume).to_owned(),
        mount_path: (*path).to_owned(),
        read_only: matches!(access, ReadOnly).then_some(true),
        ..VolumeMount::default()
    };
    Container {
        name: name.to_owned(),
        image: Some(input.valid.image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some([PROGRAM.to_owned()].into_iter().chain(step).collect()),
        env: Some(environment(input)),
        resources: Some(requirements(resources)),
        security_context: Some(confined()),
        volume_mounts: Some(mounts.iter().chain([&temporary]).map(mount).collect()),
        ..Container::default()
    }
}

/// Much the same for all: a container passes over what is another's. Nothing of it is secret.
fn environment(input: BuildInput<'_>) -> Vec<EnvVar> {
    let pods = input.pods;
    let name = &input.valid.name;
    let denied: Vec<String> = pods.denied.iter().map(ToString::to_string).collect();
    let size = quantity::value(&pods.state_size.0).unwrap_or_default();
    let variables = [
        ("PLUGIN", format!("/plugins/{name}")),
        ("MOUNTED", "/run/famulus/mounted".to_owned()),
        ("VOLUME", "/state".to_owned()),
        ("KEPT", "/run/famulus/kept".to_owned()),
        ("STATE", format!("/plugins/{name}:/state/revisions")),
        ("STATE_BYTES", format!("{:.0}", size * STATE_SHARE)),
        ("STATE_FILES", STATE_FILES.to_string()),
        ("PROBE_CONTROL", pods.callback.to_string()),
        ("PROBE_DENIED", denied.join(",")),
        (ACCEPTS, pods.accept_open_network.to_string()),
    ];
    let variables = variables.into_iter().map(|(name, value)| variable(name, value));
    variables.chain([of_pod("PROBE_NODE", "status.hostIP")]).collect()
}

/// Whether a Pod runs its plugin in whatever network it finds.
pub fn accepts_open_network(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut variables = containers.flat_map(|container| container.env.iter().flatten());
    variables.any(|it| it.name == named(ACCEPTS) && it.value.as_deref() != Some("false"))
}

fn named(name: &str) -> String {
    format!("FAMULUS_RUNNER_{name}")
}

fn variable(name: &str, value: String) -> EnvVar {
    EnvVar { name: named(name), value: Some(value), ..EnvVar::default() }
}

/// What only the Pod itself will know.
fn of_pod(name: &str, field: &str) -> EnvVar {
    EnvVar {
        name: named(name),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: field.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn confined() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        privileged: Some(false),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        ..SecurityContext::default()
    }
}

fn requirements(resources: &Resources) -> ResourceRequirements {
    let amounts = |amounts: Option<&Amounts>| {
        let amounts = amounts?;
        let named = [
            ("cpu", &amounts.cpu),
            ("memory", &amounts.memory),
            ("ephemeral-storage", &amounts.ephemeral_storage),
        ];
        let given = named.into_iter().filter_map(|(name, amount)| {
            Some((name.to_owned(), Quantity(amount.as_ref()?.0.clone())))
        });
        Some(given.collect::<BTreeMap<_, _>>())
    };
    ResourceRequirements {
        requests: amounts(resources.requests.as_ref()),
        limits: amounts(resources.limits.as_ref()),
        ..ResourceRequirements::default()
    }
}
