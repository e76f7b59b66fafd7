//! Looks at Plugins as they change, a bounded number at a time, and one never twice at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use famulus_crds::labels::OPERATOR;
use famulus_crds::plugin::{Plugin, Reason};
use famulus_errors::chain;
use famulus_lifecycle::Tasks;
use futures::{FutureExt, Stream, StreamExt, pin_mut, stream};
use kube::runtime::controller::{Action, Config, applier};
use kube::runtime::events::{Event, EventType};
use kube::runtime::reflector::{self, ObjectRef};
use kube::{Client, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::plugin::error::{Error, FailureKind};
use crate::plugin::reconcile;
use crate::watches::{self, Queued};
use crate::work_queue::WorkQueue;

/// Plugins that are worked on at the same time.
const AT_A_TIME: u16 = 16;

/// One may wait for the API server as long as this; then it is tried again.
const LONGEST: Duration = Duration::from_mins(1);

/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// Works until `stop`, and ends when what was begun is done. `client` is for the watches alone, which
/// are among `tasks`.
pub async fn run(context: Arc<Context>, client: Client, tasks: Tasks, stop: CancellationToken) {
    let (store, writer) = reflector::store();
    let queue = WorkQueue::default();
    watches::start(&context, &client, writer, &queue, &tasks);
    tokio::select! {
        () = context.stores.ready() => {}
        () = stop.cancelled() => return,
    }
    context.note_users();
    tracing::info!(plugins = context.stores.plugins.len(), "the operator works");

    let ends = applier(
        |plugin, context: Arc<Context>| look_at(plugin, context).boxed(),
        |plugin, error, context| Action::requeue(pause(&plugin, error, &context)),
        Arc::clone(&context),
        store,
        requests(queue, context.namespace.clone(), stop),
        Config::default().concurrency(AT_A_TIME),
    );
    pin_mut!(ends);
    while let Some(end) = ends.next().await {
        // An error of a reconcile was logged where it ended; what is left is a Plugin that is gone.
        if let Err(error) = end {
            tracing::debug!(%error, "a Plugin was not reconciled");
        }
    }
}

/// What the watches ask for, until the end.
fn requests(
    queue: WorkQueue,
    namespace: String,
    stop: CancellationToken,
) -> impl Stream<Item = Result<ObjectRef<Queued>, Infallible>> {
    stream::unfold((queue, namespace, stop), |(queue, namespace, stop)| async move {
        let name = tokio::select! {
            () = stop.cancelled() => return None,
            name = queue.next() => name,
        };
        Some((Ok(ObjectRef::new(&name).within(&namespace)), (queue, namespace, stop)))
    })
}

async fn look_at(queued: Arc<Queued>, context: Arc<Context>) -> Result<Action, Error> {
    let name = queued.name_any();
    // It went meanwhile.
    let Some(plugin) = context.stores.plugins.get(&name) else {
        return Ok(Action::await_change());
    };
    let began = Instant::now();
    let done = tokio::time::timeout(LONGEST, reconcile(Arc::clone(&plugin), &context)).await;
    metrics::histogram!("famulus_operator_reconcile_seconds").record(began.elapsed().as_secs_f64());
    match done {
        Ok(Ok(after)) => {
            metrics::counter!("famulus_operator_reconciles_total", "result" => "ok").increment(1);
            context.succeeded(&name);
            Ok(Action::requeue(after))
        }
        Ok(Err(error)) => {
            metrics::counter!("famulus_operator_reconciles_total", "result" => "error")
                .increment(1);
            let kind = error.kind();
            metrics::counter!("famulus_operator_errors_total", "kind" => kind.name()).increment(1);
            log(&plugin, &error, kind, &context).await;
            Err(error)
        }
        Err(_elapsed) => {
            metrics::counter!("famulus_operator_reconciles_total", "result" => "timeout")
                .increment(1);
            tracing::warn!(plugin.name = %name, "the API server did not answer in time; tried again");
            Ok(Action::requeue(pause_after(FailureKind::Timeout, context.failed(&name))))
        }
    }
}

/// What only a person can help with is said where the owner looks.
async fn log(plugin: &Plugin, error: &Error, kind: FailureKind, context: &Context) {
    let text = chain(error);
    let name = plugin.name_any();
    if kind.passes() {
        tracing::warn!(plugin.name = %name, kind = kind.name(), error = text, "tried again");
        return;
    }
    tracing::error!(plugin.name = %name, kind = kind.name(), error = text, "cannot go on");
    let event = Event {
        type_: EventType::Warning,
        reason: Reason::RunnerFailing.name().to_owned(),
        note: Some(text.chars().take(1000).collect()),
        action: OPERATOR.to_owned(),
        secondary: None,
    };
    context.events.tell(&event, plugin).await;
}

fn pause(plugin: &Queued, error: &Error, context: &Context) -> Duration {
    pause_after(error.kind(), context.failed(&plugin.name_any()))
}

/// Doubles with each failure in a row.
fn pause_after(kind: FailureKind, before: u32) -> Duration {
    kind.first_pause().saturating_mul(1 << before.min(16)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_five_minutes() {
        let table = [
            (FailureKind::Conflict, 0, 200),
            (FailureKind::Conflict, 3, 1600),
            (FailureKind::Throttled, 0, 2000),
            (FailureKind::Server, 2, 4000),
            (FailureKind::Invalid, 0, 5000),
            (FailureKind::Server, 40, 300_000),
        ];
        for (kind, before, expected) in table {
            assert_eq!(pause_after(kind, before).as_millis(), expected, "{kind:?} {before}");
        }
    }
}
