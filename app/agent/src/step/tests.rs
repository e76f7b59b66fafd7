use super::*;
use famulus_core::{
    agent::Grants,
    ids::{AgentId, TurnId},
    tool::{CallKey, Repeat},
    turn::CallState,
};

fn agent(step_cap: Option<u32>) -> Agent {
    Agent {
        id: AgentId::new(),
        name: "main".into(),
        prompt: String::new(),
        model: None,
        step_cap,
        budgets: Budgets { read: 3, write: 2, external: 1 },
        tools: Grants::all(),
    }
}

fn fresh(step_cap: Option<u32>) -> State {
    State::from_record(&agent(step_cap), 0, &[])
}

fn call(name: &str, n: u32, effect: Effect, verdict: Verdict) -> (ToolCall, Plan) {
    (
        ToolCall { id: format!("c{n}"), name: name.into(), arguments: format!("{{\"n\":{n}}}") },
        Plan { effect, repeat: Repeat::Safe, verdict },
    )
}

fn read(n: u32) -> (ToolCall, Plan) {
    call("look", n, Effect::Read, Verdict::Allow)
}

fn replied_with(calls: Vec<(ToolCall, Plan)>) -> Input {
    Input::Replied { empty: calls.is_empty(), calls }
}

fn text() -> Input {
    Input::Replied { empty: false, calls: Vec::new() }
}

fn run(mut state: State, inputs: Vec<Input>) -> (State, Vec<Vec<Action>>) {
    let mut seen = Vec::new();
    for input in inputs {
        let (next, actions) = step(state, input);
        state = next;
        seen.push(actions);
    }
    (state, seen)
}

const BEGIN: Input = Input::Begin { unsettled: false, cancelled: false };

#[test]
fn a_plain_answer_ends_the_turn() {
    let (_, seen) = run(fresh(None), vec![BEGIN, text()]);
    assert_eq!(
        seen,
        [vec![Action::Ask(Mode::WithTools)], vec![finish(TurnState::Complete, None, None)]]
    );
}

#[test]
fn calls_are_recorded_before_they_run() {
    let (_, seen) = run(
        fresh(None),
        vec![
            BEGIN,
            replied_with(vec![
                read(1),
                call(
                    "cut",
                    2,
                    Effect::Write,
                    Verdict::Ask { asked: Asked::Owner, summary: "cut".into() },
                ),
                call("no", 3, Effect::Read, Verdict::Refuse(ToolOutput::Error("x".into()))),
            ]),
            Input::Settled,
            text(),
        ],
    );
    assert_eq!(
        seen[1],
        [
            Action::Record(vec![
                Decision::Run,
                Decision::Question { asked: Asked::Owner, summary: "cut".into() },
                Decision::Answer(ToolOutput::Error("x".into())),
            ]),
            Action::Run,
        ]
    );
    assert_eq!(seen[2], [Action::Ask(Mode::WithTools)]);
}

#[test]
fn an_empty_reply_is_asked_for_once_more() {
    let empty = || Input::Replied { empty: true, calls: Vec::new() };
    let (_, seen) = run(fresh(None), vec![BEGIN, empty(), empty()]);
    assert_eq!(seen[1], [Action::Ask(Mode::WithTools)]);
    assert_eq!(seen[2], [finish(TurnState::Complete, None, None)]);
}

#[test]
fn the_step_cap_ends_with_a_wrap_up() {
    let (_, seen) = run(
        fresh(Some(2)),
        vec![
            BEGIN,
            replied_with(vec![read(1)]),
            Input::Settled,
            replied_with(vec![read(2)]),
            Input::Settled,
            text(),
        ],
    );
    let Action::Record(decisions) = &seen[3][0] else { panic!("{seen:?}") };
    assert!(matches!(&decisions[..], [Decision::Answer(ToolOutput::Error(_))]));
    assert_eq!(seen[4], [Action::Ask(Mode::WrapUp(Sentinel::StepCap))]);
    assert_eq!(seen[5], [finish(TurnState::Complete, Some(Sentinel::StepCap), None)]);
}

#[test]
fn a_cap_of_zero_means_text_only() {
    let (_, seen) = run(fresh(Some(0)), vec![BEGIN, replied_with(vec![read(1)]), text()]);
    assert_eq!(seen[0], [Action::Ask(Mode::TextOnly)]);
    assert!(!seen.iter().flatten().any(|action| matches!(action, Action::Record(_))));
}

#[test]
fn no_agent_goes_beyond_the_hard_cap() {
    let mut state = fresh(Some(100_000));
    state.budgets.read = u32::MAX;
    let mut asked = 0;
    for n in 0..1000 {
        let (next, _) = step(state, replied_with(vec![read(n)]));
        let (next, actions) = step(next, Input::Settled);
        state = next;
        asked += 1;
        if matches!(actions[..], [Action::Ask(Mode::WrapUp(Sentinel::StepCap))]) {
            break;
        }
    }
    assert_eq!(asked, famulus_core::agent::HARD_STEP_CAP);
}

#[test]
fn budgets_hold_by_class_of_effect() {
    let write = |n| call("put", n, Effect::Write, Verdict::Allow);
    let (_, seen) = run(
        fresh(None),
        vec![BEGIN, replied_with(vec![write(1), write(2), write(3), read(4)]), Input::Settled],
    );
    let Action::Record(decisions) = &seen[1][0] else { panic!("{seen:?}") };
    assert_eq!(decisions[0], Decision::Run);
    assert_eq!(decisions[1], Decision::Run);
    assert!(
        matches!(&decisions[2], Decision::Answer(ToolOutput::Error(text)) if text.contains('2'))
    );
    assert_eq!(decisions[3], Decision::Run, "another class has its own budget");
    assert_eq!(seen[2], [Action::Ask(Mode::WrapUp(Sentinel::ToolBudget))]);
}

#[test]
fn circles_end_with_a_wrap_up() {
    for pattern in [&[1, 1, 1][..], &[1, 2, 1, 2]] {
        let mut state = fresh(None);
        state.budgets.read = 100;
        let mut last = Vec::new();
        for n in pattern {
            let (next, _) = step(state, replied_with(vec![read(*n)]));
            let (next, actions) = step(next, Input::Settled);
            state = next;
            last = actions;
        }
        assert_eq!(last, [Action::Ask(Mode::WrapUp(Sentinel::DoomLoop))], "{pattern:?}");
    }
}

#[test]
fn a_stop_wins_over_everything() {
    let (_, actions) = step(fresh(None), Input::Begin { unsettled: true, cancelled: true });
    assert_eq!(actions, [finish(TurnState::Cancelled, Some(Sentinel::Cancelled), None)]);
    let (_, actions) = step(fresh(None), Input::Cancelled);
    assert_eq!(actions, [finish(TurnState::Cancelled, Some(Sentinel::Cancelled), None)]);
}

#[test]
fn steering_reopens_a_circle_but_not_the_cap() {
    let mut state = fresh(Some(3));
    state.wrap = Some(Sentinel::DoomLoop);
    state.trail = vec![1, 1, 1];
    let (state, actions) = step(state, Input::Steered);
    assert_eq!(actions, [Action::Ask(Mode::WithTools)]);
    let mut capped = state;
    capped.steps = 2;
    let (_, actions) = step(capped, Input::Steered);
    assert_eq!(actions, [Action::Ask(Mode::WrapUp(Sentinel::StepCap))]);
}

#[test]
fn a_successor_decides_as_its_predecessor_would_have() {
    let mut budgets = agent(Some(9));
    budgets.budgets.read = 2;
    let agent = budgets;
    let turn = TurnId::new();
    let mut state = State::from_record(&agent, 0, &[]);
    let mut record = Vec::new();
    for n in 0..6 {
        let replies = replied_with(vec![read(n % 2), read(7)]);
        let Input::Replied { calls, .. } = replies.clone() else { unreachable!() };
        let (next, _) = step(state, replies);
        state = next;
        for (place, (call, plan)) in calls.into_iter().enumerate() {
            record.push(RecordedCall {
                key: CallKey { turn, step: n, call: place as u32, item: 0 },
                call,
                effect: plan.effect,
                repeat: plan.repeat,
                state: CallState::Done,
                sent_at: None,
                output: None,
                approval: None,
            });
        }
        assert_eq!(State::from_record(&agent, n + 1, &record), state, "after step {n}");
        if state.wrap.is_some() {
            break;
        }
    }
}
