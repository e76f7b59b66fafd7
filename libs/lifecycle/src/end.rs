//! What became of what a task does.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use crate::tasks::Boxed;

/// How what a task does came to its end.
pub(crate) enum End {
    Returned,
    Panicked(String),
}

impl End {
    pub(crate) async fn of(mut future: Boxed) -> Self {
        poll_fn(|context| {
            // Unwind safe: after a panic the future is dropped whole and nothing of it is looked at again.
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
            match polled {
                Ok(polled) => polled.map(|()| Self::Returned),
                Err(payload) => Poll::Ready(Self::Panicked(panic_text(&*payload))),
            }
        })
        .await
    }

    pub(crate) fn log_panic(&self, name: &str) {
        if let Self::Panicked(panic) = self {
            tracing::error!(task.name = name, panic, "a task panicked");
        }
    }

    pub(crate) fn log_restart(&self, name: &str, pause: Duration) {
        self.log_panic(name);
        let pause_ms = pause.as_millis() as u64;
        tracing::warn!(task.name = name, pause_ms, "a task ended early: starting it again");
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a value that is not text".to_owned()
    }
}
