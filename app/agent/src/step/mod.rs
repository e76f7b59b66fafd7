//! The turn as a machine: what happened goes in, what is to be done comes out.

use crate::repeats::{Fingerprint, fingerprint, is_circle};
use famulus_core::{
    agent::{Agent, Budgets},
    approval::Asked,
    message::{Sentinel, ToolCall},
    tool::{Effect, Plan, ToolOutput, Verdict},
    turn::{RecordedCall, TurnState},
};
use jiff::Timestamp;

/// What the machine remembers of a turn. Rebuilt from the record, so that a successor decides as
/// its predecessor would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Replies that the turn may have.
    cap: u32,
    text_only: bool,
    budgets: Budgets,
    /// Replies recorded so far.
    steps: u32,
    used: Used,
    trail: Vec<Fingerprint>,
    /// Set once the turn is being brought to its end.
    wrap: Option<Sentinel>,
    /// An empty reply was asked for again.
    asked_again: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    read: u32,
    write: u32,
    external: u32,
}

impl Used {
    fn add(&mut self, effect: Effect) -> u32 {
        let count = match effect {
            Effect::Read => &mut self.read,
            Effect::Write => &mut self.write,
            Effect::External => &mut self.external,
        };
        *count += 1;
        *count
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The turn was taken up. `unsettled` says that the latest step has calls without results.
    Begin { unsettled: bool, cancelled: bool },
    /// The model replied. `empty` means without any visible text.
    Replied { empty: bool, calls: Vec<(ToolCall, Plan)> },
    /// The model failed for good.
    ModelFailed { message: String },
    /// Every call of the step has its result, and the results are recorded.
    Settled,
    /// Some calls wait for an answer, until then at the latest.
    Pending { deadline: Timestamp },
    /// While the turn was ending, the person wrote more.
    Steered,
    /// Somebody ended the turn.
    Cancelled,
}

/// What is to be done, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Ask(Mode),
    /// Record the reply and what becomes of each of its calls.
    Record(Vec<Decision>),
    /// Run the calls of the latest step that have no output.
    Run,
    /// Give up the worker until something happens.
    Park {
        deadline: Timestamp,
    },
    Finish(Finish),
}

/// How the model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    WithTools,
    TextOnly,
    /// Text only, and the model is told why it must come to an end.
    WrapUp(Sentinel),
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Run,
    Question {
        asked: Asked,
        summary: String,
    },
    /// Not run; this is its output.
    Answer(ToolOutput),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    pub state: TurnState,
    pub sentinel: Option<Sentinel>,
    pub error: Option<String>,
}

impl State {
    /// The state of a turn with this record.
    pub fn from_record(agent: &Agent, steps: u32, calls: &[RecordedCall]) -> Self {
        let mut state = Self {
            cap: agent.steps(),
            text_only: agent.is_text_only(),
            budgets: agent.budgets,
            steps,
            used: Used::default(),
            trail: Vec::new(),
            wrap: None,
            asked_again: false,
        };
        for step in calls.chunk_by(|a, b| a.key.step == b.key.step) {
            state.trail.push(fingerprint(step.iter().map(|recorded| &recorded.call)));
            let mut over = false;
            for recorded in step {
                over |= state.used.add(recorded.effect) > state.budgets.of(recorded.effect);
            }
            state.wrap = state.brake(step[0].key.step + 1, over);
        }
        state
    }

    /// Why the turn must come to its end after a step with calls, if it must.
    fn brake(&self, steps: u32, over_budget: bool) -> Option<Sentinel> {
        if is_circle(&self.trail) {
            Some(Sentinel::DoomLoop)
        } else if steps >= self.cap {
            Some(Sentinel::StepCap)
        } else if over_budget {
            Some(Sentinel::ToolBudget)
        } else {
            None
        }
    }

    fn ask(&self) -> Action {
        Action::Ask(match self.wrap {
            Some(reason) => Mode::WrapUp(reason),
            None if self.text_only => Mode::TextOnly,
            None => Mode::WithTools,
        })
    }
}

/// Decides. Pure: the same state and input give the same answer on every machine.
pub fn step(mut state: State, input: Input) -> (State, Vec<Action>) {
    let actions = match input {
        Input::Cancelled | Input::Begin { cancelled: true, .. } => {
            vec![finish(TurnState::Cancelled, Some(Sentinel::Cancelled), None)]
        }
        Input::Begin { unsettled: true, .. } => vec![Action::Run],
        Input::Begin { .. } | Input::Settled => vec![state.ask()],
        Input::ModelFailed { message } => {
            vec![finish(TurnState::Failed, Some(Sentinel::Failed), Some(message))]
        }
        Input::Pending { deadline } => vec![Action::Park { deadline }],
        Input::Steered => {
            // A new word from the person opens the way again; the caps stay.
            state.trail.clear();
            state.steps += 1;
            state.wrap =
                (state.steps >= state.cap && !state.text_only).then_some(Sentinel::StepCap);
            state.asked_again = false;
            vec![state.ask()]
        }
        Input::Replied { empty, calls } => replied(&mut state, empty, calls),
    };
    (state, actions)
}

fn replied(state: &mut State, empty: bool, calls: Vec<(ToolCall, Plan)>) -> Vec<Action> {
    if state.wrap.is_some() || state.text_only || calls.is_empty() {
        if empty && !state.asked_again {
            state.asked_again = true;
            return vec![state.ask()];
        }
        return vec![finish(TurnState::Complete, state.wrap, None)];
    }
    state.trail.push(fingerprint(calls.iter().map(|(call, _)| call)));
    let mut over_budget = false;
    let mut decisions: Vec<Decision> = calls
        .into_iter()
        .map(|(_, plan)| {
            if state.used.add(plan.effect) > state.budgets.of(plan.effect) {
                over_budget = true;
                return Decision::Answer(ToolOutput::Error(format!(
                    "not run: this turn has used up its {} calls that {}",
                    state.budgets.of(plan.effect),
                    describe(plan.effect)
                )));
            }
            match plan.verdict {
                Verdict::Allow => Decision::Run,
                Verdict::Ask { asked, summary } => Decision::Question { asked, summary },
                Verdict::Refuse(output) => Decision::Answer(output),
            }
        })
        .collect();
    state.steps += 1;
    state.wrap = state.brake(state.steps, over_budget);
    if let Some(reason @ (Sentinel::DoomLoop | Sentinel::StepCap)) = state.wrap {
        for decision in &mut decisions {
            *decision = Decision::Answer(ToolOutput::Error(format!("not run: {}", why(reason))));
        }
    }
    state.asked_again = false;
    vec![Action::Record(decisions), Action::Run]
}

fn finish(state: TurnState, sentinel: Option<Sentinel>, error: Option<String>) -> Action {
    Action::Finish(Finish { state, sentinel, error })
}

fn describe(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::Write => "change something",
        Effect::External => "reach outside",
    }
}

/// A brake in words, for the model and for the person.
pub fn why(reason: Sentinel) -> &'static str {
    match reason {
        Sentinel::StepCap => "the turn has reached its number of steps",
        Sentinel::ToolBudget => "the turn has used up its tool calls",
        Sentinel::DoomLoop => "the same calls came again and again",
        Sentinel::Cancelled => "the turn was stopped",
        Sentinel::Interrupted => "the reply was cut short",
        Sentinel::Failed => "the turn failed",
    }
}

#[cfg(test)]
mod tests;
