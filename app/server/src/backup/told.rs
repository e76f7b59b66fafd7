//! How backups stand that others take: as they tell it in the database, and by the clock where they say
//! nothing.

use super::standing::{Known, Last, Remedies, Verified};
use crate::notices::Notices;
use famulus_api::Standing;
use famulus_core::{Clock, clock::SystemClock, person::Person};
use famulus_errors::chain;
use famulus_lifecycle::{OnExit, Tasks};
use famulus_store::{Report, ReportKind};
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const LOOK: Duration = Duration::from_secs(10);

/// What can be done where others take them, each by a Job.
const REMEDIES: Remedies = Remedies {
    first: "the first is taken when its CronJob is due",
    take: "The log of the last Job of the CronJob for backups says more: see `kubectl get jobs`, and \
           docs/OPERATIONS.md",
    verify: "The log of the last Job of the CronJob that verifies says more: see `kubectl get jobs`, and \
             docs/OPERATIONS.md",
};

/// Tells the owner something about backups, once for each key; whether that was done.
pub(super) async fn tell_owner(notices: &Notices, key: &str, words: &str) -> bool {
    let told = notices.tell(key, words).boxed().await;
    if let Err(error) = &told {
        let error = format!("{error:#}");
        tracing::warn!(error, words, "the owner was not told what became of backups");
    }
    told.is_ok()
}

/// Tells the owner that the database was restored, and what waits for a word of theirs.
pub(super) async fn that_it_was_restored(notices: &Notices) {
    let reports = match notices.store.backup_reports().boxed().await {
        Ok(reports) => reports,
        Err(error) => {
            tracing::warn!(error = chain(&error), "whether the database was restored is not known");
            return;
        }
    };
    let restored = reports.iter().find(|report| report.kind == ReportKind::Restored);
    let Some(Report { at, reason: Some(words), .. }) = restored else { return };
    tell_owner(notices, &format!("restored {at}"), words).await;
}

/// Tells how they stand, until the shutdown. None for so many hours is too long.
pub(crate) fn watch(
    overdue_hours: u32,
    told: watch::Sender<Option<Standing>>,
    notices: Notices,
    tasks: &Tasks,
) {
    let overdue = SignedDuration::from_hours(i64::from(overdue_hours));
    let (watcher, shutdown) = (Arc::new(Watcher { overdue, told, notices }), tasks.token());
    tasks.spawn_loop("backup.told", OnExit::Restart, move || {
        Arc::clone(&watcher).run(shutdown.clone())
    });
}

struct Watcher {
    overdue: SignedDuration,
    told: watch::Sender<Option<Standing>>,
    notices: Notices,
}

impl Watcher {
    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        that_it_was_restored(&self.notices).boxed().await;
        // What was said last of each fault: it is looked at often, and said once a day.
        let mut said = [String::new(), String::new(), String::new()];
        let mut counted = SystemClock.now();
        loop {
            match self.notices.store.backup_reports().boxed().await {
                Ok(reports) => {
                    let failures = new_failures(&reports, &mut counted);
                    metrics::counter!("famulus_backup_failures_total").increment(failures);
                    self.see(&reports, &mut said).boxed().await;
                }
                Err(error) => {
                    tracing::warn!(error = chain(&error), "how the backups stand is not known");
                }
            }
            if shutdown.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
                return;
            }
        }
    }

    async fn see(&self, reports: &[Report], said: &mut [String; 3]) {
        let now = SystemClock.now();
        let known = known(reports, made(&self.notices.owner), now, self.overdue);
        known.count();
        self.told.send_replace(Some(known.standing(true, &REMEDIES, now)));
        let today = now.strftime("%F");
        let faults = [
            known.not_taken.map(|reason| {
                let words = format!("No backup was taken, though one is due: {reason}.");
                (format!("backup not taken {today}"), words, REMEDIES.take)
            }),
            known.not_restored.map(|(_, reason)| {
                let words =
                    format!("A backup could not be restored to see whether it can be: {reason}.");
                (format!("backup not restored {today}"), words, REMEDIES.verify)
            }),
            known.last.and_then(|last| {
                let words =
                    format!("The backup {} was taken, and lacks {}.", last.name, last.lacks?);
                Some((format!("backup lacks {today}"), words, REMEDIES.take))
            }),
        ];
        for (fault, said) in faults.into_iter().zip(said) {
            let Some((key, words, remedy)) = fault.filter(|(key, ..)| key != said) else {
                continue;
            };
            let words = format!("{words} {remedy}.");
            if tell_owner(&self.notices, &key, &words).boxed().await {
                *said = key;
            }
        }
    }
}

/// How many failures are told of that were not `counted` yet.
fn new_failures(reports: &[Report], counted: &mut Timestamp) -> u64 {
    let failures = [ReportKind::NotTaken, ReportKind::NotVerified];
    let new = reports.iter().filter(|it| failures.contains(&it.kind) && it.at > *counted);
    let (number, newest) = new.fold((0, *counted), |(n, last), it| (n + 1, last.max(it.at)));
    *counted = newest;
    number
}

/// When an installation was made: its owner with it, whose id begins with the time.
fn made(owner: &Person) -> Timestamp {
    let seconds = owner.id.0.get_timestamp().map_or(0, |at| at.to_unix().0.cast_signed());
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What the reports say, and their silence. `since`: when the installation was made.
fn known(reports: &[Report], since: Timestamp, now: Timestamp, overdue: SignedDuration) -> Known {
    let last = |kind| reports.iter().find(|report| report.kind == kind);
    // A failure counts until the next success.
    let failed = |failure: ReportKind, success: ReportKind| {
        let failure = last(failure)?;
        let since = last(success).is_some_and(|success| success.at > failure.at);
        (!since).then(|| failure.reason.clone().unwrap_or_default())
    };
    let name = |report: &Report| report.backup.clone().unwrap_or_default();
    let taken = last(ReportKind::Taken);
    let begun = taken.or_else(|| last(ReportKind::Restored)).map_or(since, |report| report.at);
    let silent = (now.duration_since(begun) > overdue)
        .then(|| format!("none was for more than {} hours", overdue.as_hours()));
    Known {
        last: taken.map(|report| Last {
            name: name(report),
            begun: report.at,
            encrypted: false,
            lacks: report.reason.clone(),
        }),
        verified: last(ReportKind::Verified)
            .map(|report| Verified { backup: name(report), at: report.at }),
        not_taken: failed(ReportKind::NotTaken, ReportKind::Taken).or(silent),
        not_restored: failed(ReportKind::NotVerified, ReportKind::Verified)
            .map(|reason| ("the last".to_owned(), reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: ReportKind, at: &str, reason: Option<&str>) -> Report {
        let good = reason.is_none() || kind == ReportKind::Taken;
        let backup = good.then(|| "b".to_owned());
        Report { kind, backup, at: at.parse().unwrap(), reason: reason.map(str::to_owned) }
    }

    fn standing(reports: &[Report]) -> (bool, String) {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let (since, now) = (at("2026-11-20T00:00:00Z"), at("2026-11-24T12:00:00Z"));
        let known = known(reports, since, now, SignedDuration::from_hours(30));
        let Standing { ok, detail, remedy } = known.standing(true, &REMEDIES, now);
        assert_eq!(remedy.is_some(), !ok);
        (ok, detail)
    }

    #[test]
    fn a_failure_is_counted_once() {
        let mut counted = "2026-11-24T10:00:00Z".parse().unwrap();
        let reports = [
            report(ReportKind::NotTaken, "2026-11-24T11:00:00Z", Some("x")),
            report(ReportKind::NotVerified, "2026-11-24T09:00:00Z", Some("y")),
            report(ReportKind::Taken, "2026-11-24T12:00:00Z", None),
        ];
        assert_eq!(new_failures(&reports, &mut counted), 1);
        assert_eq!(new_failures(&reports, &mut counted), 0);
    }

    #[test]
    fn what_is_told_counts_and_so_does_silence() {
        use ReportKind::{NotTaken, NotVerified, Restored, Taken, Verified};
        let check = |reports: &[Report], ok: bool, words: &str| {
            let (stands, detail) = standing(reports);
            assert!(stands == ok && detail.contains(words), "{reports:?}: {detail}");
        };
        let taken = report(Taken, "2026-11-24T03:00:00Z", None);
        check(std::slice::from_ref(&taken), true, "the last is b, 9 h old");
        check(&[report(Verified, "2026-11-23T00:00:00Z", None), taken.clone()], true, "36 h ago");
        let lacking = report(Taken, "2026-11-24T03:00:00Z", Some("the files of w: gone"));
        check(&[lacking], false, "the last is b, 9 h old, and lacks the files of w: gone");
        check(&[], false, "none was for more than 30 hours");
        check(&[report(Restored, "2026-11-24T11:00:00Z", None)], true, "none yet");
        check(&[report(Taken, "2026-11-22T03:00:00Z", None)], false, "none was for more than 30");
        let full = report(NotTaken, "2026-11-24T11:00:00Z", Some("the disk is full"));
        check(&[full.clone(), taken], false, "the disk is full");
        check(&[full, report(Taken, "2026-11-24T11:30:00Z", None)], true, "30 min old");
        let torn = report(NotVerified, "2026-11-24T04:00:00Z", Some("it is damaged"));
        let taken = report(Taken, "2026-11-24T03:00:00Z", None);
        check(&[torn.clone(), taken.clone()], false, "it is damaged");
        check(
            &[torn, report(Verified, "2026-11-24T05:00:00Z", None), taken],
            true,
            "restored to see",
        );
    }
}
