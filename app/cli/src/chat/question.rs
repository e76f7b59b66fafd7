//! Approvals that are asked for while a turn runs: the exact call is shown, and only a typed yes
//! is one. An empty line refuses, and what is neither
//! yes nor no is asked again.

use std::collections::{BTreeSet, VecDeque};

use famulus_core::approval::Rights;
use famulus_core::ids::ApprovalId;
use famulus_core::visible::make_visible;

use crate::answer::{self, AGAIN, Answer};
use crate::approvals;
use crate::chat::session::Session;
use crate::output::Output;
use crate::transcript::Question;
use crate::wire::{Approval, Verdict};

/// The questions of one turn; the first is on the screen.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: VecDeque<Approval>,
    /// Each is shown once, also where a stream begins anew.
    shown: BTreeSet<ApprovalId>,
}

impl Questions {
    pub(crate) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Puts a question to whoever sits there. Where nobody does, or where it is not theirs to
    /// answer, says how it can be answered.
    pub(crate) async fn ask(&mut self, session: &mut Session, question: &Question) {
        if self.shown.contains(&question.approval) {
            return;
        }
        let pending = match approvals::pending(&session.client).await {
            Ok(pending) => pending,
            Err(error) => {
                let Question { code, summary, .. } = question;
                session.output.note(&format!("· waits for approval {code}: {summary}"));
                session.output.complain(&error);
                return;
            }
        };
        let Some(approval) = pending.into_iter().find(|a| a.id == question.approval) else {
            // Answered or expired in the meantime; the turn goes on by itself.
            return;
        };
        self.shown.insert(approval.id);
        if !session.asks || approval.may != Rights::Answer {
            session.output.ask(&described(&approval));
            session.output.note(&format!("· {}", elsewhere(&approval)));
            return;
        }
        self.open.push_back(approval);
        if self.open.len() == 1 {
            self.put(session);
        }
    }

    /// Takes a line that was typed.
    pub(crate) async fn answer(&mut self, session: &mut Session, line: Option<String>) {
        let Some(approval) = self.open.front().cloned() else { return };
        let Some(line) = line else {
            // The input has ended: nobody will answer here.
            session.asks = false;
            self.drop_all(&mut session.output);
            session.output.note(&format!("· {}", elsewhere(&approval)));
            return;
        };
        let verdict = match answer::read(&line) {
            Answer::Unclear => return session.output.ask(AGAIN),
            Answer::Yes => Verdict::Approve,
            Answer::No => Verdict::Deny,
        };
        self.open.pop_front();
        match approvals::decide(&session.client, approval.id, verdict).await {
            Ok(decided) => session.output.note(&format!("· {}", decided.state.as_str())),
            Err(error) => session.output.complain(&error),
        }
        if self.are_open() {
            self.put(session);
        }
    }

    /// Withdraws questions that were answered elsewhere or have expired.
    pub(crate) async fn refresh(&mut self, session: &mut Session) {
        let Ok(pending) = approvals::pending(&session.client).await else { return };
        let is_pending = |approval: &Approval| pending.iter().any(|p| p.id == approval.id);
        let first_is_gone = self.open.front().is_some_and(|first| !is_pending(first));
        self.open.retain(is_pending);
        if first_is_gone {
            session.output.end_question();
            session.output.note("· answered elsewhere, or expired");
            if self.are_open() {
                self.put(session);
            }
        }
    }

    pub(crate) fn drop_all(&mut self, output: &mut Output) {
        if self.are_open() {
            output.end_question();
        }
        self.open.clear();
    }

    fn put(&self, session: &mut Session) {
        let Some(approval) = self.open.front() else { return };
        session.input.forget();
        session.output.ask(&format!("{}approve? [y/N] ", described(approval)));
    }
}

fn elsewhere(approval: &Approval) -> String {
    let code = &approval.code;
    let way = format!("`famulus approvals approve {code}` or `deny {code}`");
    match approvals::whose(approval) {
        None => format!("answer with {way}"),
        Some(whose) => format!("{whose}: {way}"),
    }
}

/// The very call, with nothing in it hidden.
fn described(approval: &Approval) -> String {
    let (summary, shown) = (make_visible(&approval.summary), make_visible(&approval.shown));
    format!("{summary}?\n{shown}\n")
}
