//! Tells the owner: the status when it changed, and an event for each transition in it.

use famulus_crds::labels::OPERATOR;
use famulus_crds::plugin::{Condition, ConditionStatus, Plugin, PluginStatus, Reason};
use futures::future::join_all;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::error::Error;
use super::observe::Observed;
use crate::context::Context;

pub(super) async fn report(
    context: &Context,
    observed: &Observed,
    status: PluginStatus,
) -> Result<(), Error> {
    let plugin = &observed.plugin;
    if plugin.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let name = plugin.name_any();
    let before = plugin.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let events = transitions(before, &status.conditions);
    let was_ready = before.iter().any(is_ready);
    if !was_ready
        && plugin.status.as_ref().is_none_or(|status| status.revision.is_none())
        && status.conditions.iter().any(is_ready)
        && let Some(created) = plugin.creation_timestamp()
    {
        let took = observed.now.duration_since(created.0);
        metrics::histogram!("famulus_operator_ready_seconds").record(took.as_secs_f64());
    }
    // Told first: a transition that stands in the status is not seen a second time.
    let told = events.iter().map(|event| {
        tracing::info!(plugin.name = %name, reason = %event.reason, "a condition of the Plugin changed");
        context.events.tell(event, plugin)
    });
    join_all(told).await;
    write(context, &name, &status).await
}

async fn write(context: &Context, name: &str, status: &PluginStatus) -> Result<(), Error> {
    let plugins: Api<Plugin> = Api::namespaced(context.client.clone(), &context.namespace);
    let patch = Patch::Apply(json!({
        "apiVersion": Plugin::api_version(&()),
        "kind": Plugin::kind(&()),
        "status": status,
    }));
    metrics::counter!("famulus_operator_writes_total", "kind" => "PluginStatus").increment(1);
    let parameters = PatchParams::apply(OPERATOR).force();
    let written = plugins.patch_status(name, &parameters, &patch).await;
    match written {
        Ok(_) => Ok(()),
        // It was deleted meanwhile.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => Err(Error::Status { name: name.to_owned(), source }),
    }
}

fn is_ready(condition: &Condition) -> bool {
    condition.kind == "Ready" && condition.status == ConditionStatus::True
}

/// Bytes of an event's note at most: the API server refuses a longer one whole.
const LONGEST_NOTE: usize = 1024;

/// One event for each condition whose status or reason changed. What holds from the beginning is not
/// news, but what is wrong from the beginning is.
fn transitions(before: &[Condition], after: &[Condition]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for condition in after {
        let was = before.iter().find(|before| before.kind == condition.kind);
        let news = match was {
            Some(was) => was.status != condition.status || was.reason != condition.reason,
            None => condition.kind == "Ready" || is_wrong(condition),
        };
        // Ready repeats what another condition says.
        let said = events.iter().any(|event| event.reason == condition.reason);
        if news && !said && condition.status != ConditionStatus::Unknown {
            events.push(Event {
                type_: if is_wrong(condition) { EventType::Warning } else { EventType::Normal },
                reason: condition.reason.clone(),
                note: Some(note(&condition.message)),
                action: "Reconcile".to_owned(),
                secondary: None,
            });
        }
    }
    events
}

/// What fits; the condition has the whole.
fn note(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_NOTE - '…'.len_utf8());
    format!("{}…", &message[..end])
}

/// Whether somebody should do something about it.
fn is_wrong(condition: &Condition) -> bool {
    let wanted = [Reason::Suspended, Reason::StateEphemeral, Reason::Building];
    condition.status == ConditionStatus::False
        && !wanted.iter().any(|wanted| wanted.name() == condition.reason)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn said(reason: Reason) -> Condition {
        Condition::new(reason, "m", 1, Time("2026-11-21T10:00:00Z".parse().unwrap()))
    }

    #[test]
    fn an_event_is_a_transition() {
        let table: [(&[Reason], &[Reason], &[&str]); 6] = [
            (&[], &[Reason::Idle, Reason::RevisionBuilt], &["Idle"]),
            (&[], &[Reason::Idle, Reason::NoStorageClass], &["Idle", "NoStorageClass"]),
            (&[Reason::Idle], &[Reason::Running], &["Running"]),
            (&[Reason::Running], &[Reason::Running], &[]),
            (&[Reason::Building], &[Reason::RefNotFound], &["RefNotFound"]),
            (&[Reason::RevisionBuilt], &[Reason::Building], &[]),
        ];
        for (before, after, expected) in table {
            let list = |reasons: &[Reason]| reasons.iter().map(|it| said(*it)).collect::<Vec<_>>();
            let events = transitions(&list(before), &list(after));
            let reasons: Vec<&str> = events.iter().map(|event| event.reason.as_str()).collect();
            assert_eq!(reasons, expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_a_warning_and_said_once() {
        let broken = Condition::not_ready(
            Reason::RefNotFound,
            "m",
            1,
            said(Reason::Idle).last_transition_time,
        );
        let events = transitions(&[], &[broken, said(Reason::RefNotFound)]);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].type_, EventType::Warning);
        assert_eq!(transitions(&[], &[said(Reason::Suspended)])[0].type_, EventType::Normal);
    }
}
