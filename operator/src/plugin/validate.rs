//! From what the owner wrote to what is meant, once.
//!
//! The schema has refused most mistakes already. Here is what a schema cannot say: amounts that
//! contradict each other, and names that another Plugin has.

use famulus_crds::labels::{REFRESH, RETRY};
use famulus_crds::names::stem;
use famulus_crds::plugin::{
    Amounts, EgressMode, Granted, InitEgress, Plugin, Quantity, Reason, Resources, Rollout, Source,
    State,
};
use kube::ResourceExt;

use super::observe::{Config, Observed};
use super::quantity;
use crate::settings::Pods;

/// A Plugin that can be worked with.
#[derive(Clone, Debug)]
pub struct Valid {
    /// The name of the object.
    pub object: String,
    pub namespace: String,
    pub stem: String,
    pub uid: String,
    pub generation: i64,
    /// The plugin's own name.
    pub name: String,
    pub source: Source,
    /// The annotation that asks for a new build of the same source.
    pub refresh: Option<String>,
    /// The annotation that asks for one more try of what is pinned.
    pub retry: Option<String>,
    pub pin: Option<String>,
    /// Nothing of a revision runs before the pin names it.
    pub is_manual: bool,
    /// What the spec gives: to the revision that it names, where only a pin lets one run.
    pub granted: Granted,
    /// The init script reaches less than the fetching of the source, and so has a Pod of its own.
    pub init_apart: bool,
    pub state: State,
    /// Runners that are wanted, not more than there may be.
    pub replicas: i32,
    pub resources: Resources,
    pub class: Option<String>,
    pub image: String,
    pub suspend: bool,
}

/// Why a Plugin cannot be worked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    pub message: String,
}

pub fn validate(observed: &Observed, pods: &Pods) -> Result<Valid, Refusal> {
    let plugin = &observed.plugin;
    let spec = &plugin.spec;
    if let Some(older) = &observed.taken_by {
        return Err(Refusal {
            reason: Reason::NameTaken,
            message: format!(
                "the Plugin {older} is older and has the name {}; delete one of the two, or give \
                 this one another spec.name by creating it anew",
                spec.name
            ),
        });
    }
    if spec.source.inline.is_some() == spec.source.git.is_some() {
        return invalid(
            "spec.source has no source that this version knows; write exactly one of inline and \
             git"
            .to_owned(),
        );
    }
    if let Config::NotTheOwners(name) = &observed.config {
        return invalid(format!(
            "spec.configSecretRef names the Secret {name}, which does not hold an owner's values; \
             name an Opaque Secret that you made"
        ));
    }
    let resources = fill(spec.runner.resources.as_ref(), &pods.resources);
    consistent(&resources).or_else(invalid)?;
    Ok(Valid {
        object: plugin.name_any(),
        namespace: plugin.namespace().unwrap_or_default(),
        stem: stem(&plugin.name_any()),
        uid: plugin.uid().unwrap_or_default(),
        generation: plugin.metadata.generation.unwrap_or_default(),
        name: spec.name.clone(),
        source: spec.source.clone(),
        refresh: plugin.annotations().get(REFRESH).cloned(),
        retry: plugin.annotations().get(RETRY).cloned(),
        pin: spec.revision.clone(),
        is_manual: spec.rollout == Rollout::Manual,
        granted: Granted { tools: spec.permissions.tools.clone(), egress: spec.egress.mode },
        init_apart: spec.egress.init == InitEgress::AsTools && spec.egress.mode == EgressMode::None,
        state: spec.state,
        replicas: spec.runner.replicas.clamp(0, most(plugin)),
        resources,
        class: spec.runner.runtime_class_name.clone().or_else(|| pods.runtime_class.clone()),
        image: pods.images.of(spec.runner.flavour).to_owned(),
        suspend: spec.suspend,
    })
}

fn invalid<T>(message: String) -> Result<T, Refusal> {
    Err(Refusal { reason: Reason::SpecInvalid, message })
}

/// The files of a Persistent plugin serve one runner, whatever the schema let through.
fn most(plugin: &Plugin) -> i32 {
    match plugin.spec.state {
        State::Persistent => 1,
        State::Ephemeral => plugin.spec.runner.max.max(1),
    }
}

/// Each amount of its own: what the Plugin does not say is what the installation says. A request
/// that was not asked for never exceeds a limit that was.
fn fill(asked: Option<&Resources>, otherwise: &Resources) -> Resources {
    let asked = asked.cloned().unwrap_or_default();
    let limits = fill_amounts(asked.limits.clone(), otherwise.limits.as_ref());
    let mut requests = fill_amounts(asked.requests.clone(), otherwise.requests.as_ref());
    let said = asked.requests.unwrap_or_default();
    lower(&mut requests.cpu, limits.cpu.as_ref(), said.cpu.is_some());
    lower(&mut requests.memory, limits.memory.as_ref(), said.memory.is_some());
    let disk = said.ephemeral_storage.is_some();
    lower(&mut requests.ephemeral_storage, limits.ephemeral_storage.as_ref(), disk);
    Resources { requests: Some(requests), limits: Some(limits) }
}

fn fill_amounts(asked: Option<Amounts>, otherwise: Option<&Amounts>) -> Amounts {
    let asked = asked.unwrap_or_default();
    let otherwise = otherwise.cloned().unwrap_or_default();
    Amounts {
        cpu: asked.cpu.or(otherwise.cpu),
        memory: asked.memory.or(otherwise.memory),
        ephemeral_storage: asked.ephemeral_storage.or(otherwise.ephemeral_storage),
    }
}

fn lower(request: &mut Option<Quantity>, limit: Option<&Quantity>, said: bool) {
    if let (Some(asked), Some(limit), false) = (&*request, limit, said)
        && quantity::value(&asked.0) > quantity::value(&limit.0)
    {
        *request = Some(limit.clone());
    }
}

fn consistent(resources: &Resources) -> Result<(), String> {
    let (requests, limits) = (resources.requests.as_ref(), resources.limits.as_ref());
    let pair = |field: fn(&Amounts) -> &Option<Quantity>| {
        let of = |amounts: Option<&Amounts>| amounts.and_then(|amounts| field(amounts).clone());
        (of(requests), of(limits))
    };
    let table = [
        ("cpu", pair(|amounts| &amounts.cpu)),
        ("memory", pair(|amounts| &amounts.memory)),
        ("ephemeral-storage", pair(|amounts| &amounts.ephemeral_storage)),
    ];
    for (what, (request, limit)) in table {
        if let (Some(request), Some(limit)) = (&request, &limit)
            && quantity::value(&request.0) > quantity::value(&limit.0)
        {
            return Err(format!(
                "spec.runner.resources asks for {} of {what} and is limited to {}; lower the \
                 request, or raise the limit",
                request.0, limit.0
            ));
        }
        if let Some(limit) = &limit
            && quantity::value(&limit.0).is_some_and(|limit| limit <= 0.0)
        {
            return Err(format!(
                "spec.runner.resources.limits gives no {what}, with which nothing starts; raise it"
            ));
        }
    }
    Ok(())
}
