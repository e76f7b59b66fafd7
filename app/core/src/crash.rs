//! Named points at which the crash harness kills the process: before and after every durable step.
//!
//! Without the `crash-points` feature both functions are empty. With it, `FAMULUS_CRASH` names one
//! side of one point and the visit at which to die, for example `turn.finish:after:3`. With `:stand`
//! behind it the process does not die there but stands still, as one does whose machine was
//! suspended, until somebody lets it go on.

/// Every point of the product. The harness kills each one on both sides and fails if one is never
/// reached. `cargo xtask tidy` finds the steps that have none.
pub const POINTS: &[&str] = &[
    "accept.commit",
    "turn.take_up",
    "turn.interrupted",
    "turn.heard",
    "turn.reply",
    "turn.sent",
    "tool.call",
    "turn.output",
    "turn.results",
    "turn.park",
    "turn.finish",
    "model.ask",
    "event.append",
    "turn.bury",
    "approval.decide",
    "approval.close",
    "stop.commit",
    "schedule.fire",
    "delivery.sending",
    "delivery.send",
    "delivery.piece",
    "delivery.settle",
    "arrival.keep",
    "arrival.settle",
    "arrival.bury",
    "pairing.ask",
    "pairing.let_in",
    "invitation.join",
    "tell.commit",
    "question.ask",
    "question.close",
    "effect.commit",
    "late.expect",
    "queue.claim",
    "queue.extend",
    "dead.revive",
    "blob.begin",
    "blob.piece",
    "blob.whole",
    "plugin.call",
    "plugin.acknowledge",
    "plugin.begin",
    "plugin.prepare",
    "plugin.bundle",
    "plugin.offer",
    "plugin.permit",
    "plugin.build",
    "plugin.serves",
    "plugin.failed",
    "plugin.configure",
    "plugin.configured",
    "plugin.roll_back",
    "plugin.remove",
    "plugin.clear",
];

/// Dies here if told to: the step has not happened.
#[inline]
pub fn before(point: &'static str) {
    #[cfg(feature = "crash-points")]
    points::visit(point, "before");
    #[cfg(not(feature = "crash-points"))]
    let _ = point;
}

/// Dies here if told to: the step has happened.
#[inline]
pub fn after(point: &'static str) {
    #[cfg(feature = "crash-points")]
    points::visit(point, "after");
    #[cfg(not(feature = "crash-points"))]
    let _ = point;
}

#[cfg(feature = "crash-points")]
mod points {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };

    struct Plan {
        point: String,
        side: String,
        visit: u64,
        stands: bool,
    }

    /// Dies without unwinding or flushing, as if the machine had taken the process away; or stands
    /// still.
    pub(super) fn visit(point: &'static str, side: &'static str) {
        static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
        static VISITS: AtomicU64 = AtomicU64::new(0);
        let Some(plan) = PLAN.get_or_init(read) else { return };
        if plan.point == point
            && plan.side == side
            && VISITS.fetch_add(1, Ordering::Relaxed) + 1 == plan.visit
        {
            if plan.stands {
                let own = rustix::process::getpid();
                let _always_may = rustix::process::kill_process(own, rustix::process::Signal::STOP);
            } else {
                std::process::abort();
            }
        }
    }

    fn read() -> Option<Plan> {
        #[expect(clippy::disallowed_methods, reason = "a switch of test builds only")]
        let text = std::env::var("FAMULUS_CRASH").ok()?;
        let mut fields = text.split(':');
        let point = fields.next()?.to_owned();
        let side = fields.next()?.to_owned();
        let visit = fields.next().and_then(|n| n.parse().ok()).unwrap_or(1);
        let stands = fields.next() == Some("stand");
        Some(Plan { point, side, visit, stands })
    }
}
