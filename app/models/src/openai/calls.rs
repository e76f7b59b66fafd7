//! Tool calls, put together from their deltas.
//!
//! By the protocol a delta names its call by index. Servers leave the index out, send 0 for every
//! call, send the id late or twice, or the name in pieces or with every piece; a call is told
//! from its continuation by what they do agree on.

use super::chunk::CallDelta;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Most calls that one reply may ask for: far above what a turn may make.
const MOST: usize = 128;

/// A complete call; its id is unique within the reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WholeCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// As the model wrote them.
    pub(crate) arguments: String,
    /// Fields of the vendor.
    pub(crate) extra: Map<String, Value>,
}

/// The reply asks for more than [`MOST`] calls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Vec<Open>,
}

#[derive(Debug, Default)]
struct Open {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
    extra: Map<String, Value>,
    announced: bool,
}

impl Calls {
    /// Takes a delta; the names of calls that it shows to have begun go to `begun`.
    pub(crate) fn add(&mut self, delta: CallDelta, begun: &mut Vec<String>) -> Result<(), TooMany> {
        let continued = self.continued_by(&delta);
        if continued.is_none() {
            // A name may come in pieces; it is whole when the next call begins.
            self.announce_all(begun);
            if self.open.len() == MOST {
                return Err(TooMany);
            }
            self.open.push(Open { index: delta.index, ..Open::default() });
        }
        let position = continued.unwrap_or(self.open.len() - 1);
        let Some(call) = self.open.get_mut(position) else { return Ok(()) };
        call.id = call.id.take().or(delta.id);
        if call.name != delta.name {
            call.name.push_str(&delta.name);
        }
        call.arguments.push_str(&delta.arguments);
        call.extra.extend(delta.extra);
        if !call.arguments.is_empty() {
            call.announce(begun);
        }
        Ok(())
    }

    /// The position of the call that a delta goes on with; `None` begins another.
    fn continued_by(&self, delta: &CallDelta) -> Option<usize> {
        let position = match (delta.index, &delta.id) {
            (Some(index), _) => self.open.iter().rposition(|call| call.index == Some(index))?,
            (None, Some(id)) => {
                let same = self.open.iter().rposition(|call| call.id.as_ref() == Some(id));
                same.or_else(|| self.last_without_id(delta))?
            }
            (None, None) => self.open.len().checked_sub(1)?,
        };
        let call = self.open.get(position)?;
        let other_id = matches!((&call.id, &delta.id), (Some(a), Some(b)) if a != b);
        let named_again = !delta.name.is_empty()
            && !call.arguments.is_empty()
            && serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok()
            && !delta.arguments.is_empty();
        (!other_id && !named_again).then_some(position)
    }

    /// The id of the last call may come behind its first piece.
    fn last_without_id(&self, delta: &CallDelta) -> Option<usize> {
        let last = self.open.len().checked_sub(1)?;
        (self.open.get(last)?.id.is_none() && delta.name.is_empty()).then_some(last)
    }

    pub(crate) fn announce_all(&mut self, begun: &mut Vec<String>) {
        for call in &mut self.open {
            call.announce(begun);
        }
    }

    /// The calls in the order in which they began.
    pub(crate) fn whole(self) -> Vec<WholeCall> {
        let calls = self.open.into_iter().filter(|c| !c.name.is_empty() || !c.arguments.is_empty());
        let mut whole: Vec<WholeCall> = calls
            .map(|call| WholeCall {
                id: call.id.unwrap_or_default(),
                name: call.name,
                arguments: call.arguments,
                extra: call.extra,
            })
            .collect();
        make_ids_unique(&mut whole);
        whole
    }
}

impl Open {
    fn announce(&mut self, begun: &mut Vec<String>) {
        if !self.announced && !self.name.is_empty() {
            self.announced = true;
            begun.push(self.name.clone());
        }
    }
}

/// Gives an id to each call without one, and another to each whose id is taken.
pub(crate) fn make_ids_unique(calls: &mut [WholeCall]) {
    let mut taken = BTreeSet::new();
    for call in calls {
        if call.id.is_empty() {
            call.id = format!("call_{}", Uuid::now_v7().simple());
        }
        let given = call.id.clone();
        for number in 2.. {
            if taken.insert(call.id.clone()) {
                break;
            }
            call.id = format!("{given}_{number}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Delta = (Option<u64>, &'static str, &'static str, &'static str);

    fn assemble(deltas: &[Delta]) -> (Vec<(String, String, String)>, Vec<String>) {
        let (mut calls, mut begun) = (Calls::default(), Vec::new());
        for (index, id, name, arguments) in deltas.iter().copied() {
            let delta = CallDelta {
                index,
                id: (!id.is_empty()).then(|| id.to_owned()),
                name: name.to_owned(),
                arguments: arguments.to_owned(),
                extra: Map::new(),
            };
            calls.add(delta, &mut begun).unwrap();
        }
        calls.announce_all(&mut begun);
        let whole = calls.whole().into_iter().map(|c| (c.id, c.name, c.arguments)).collect();
        (whole, begun)
    }

    #[test]
    fn deltas_become_calls() {
        let check = |what: &str, deltas: &[Delta], expected: &[(&str, &str, &str)]| {
            let (calls, begun) = assemble(deltas);
            let expected: Vec<_> = expected
                .iter()
                .map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned()))
                .collect();
            assert_eq!(calls, expected, "{what}");
            let names: Vec<_> = expected.iter().map(|(_, name, _)| name.clone()).collect();
            assert_eq!(begun, names, "{what}: announced once each, whole");
        };
        let one = Some(1);
        let nought = Some(0);
        check("none", &[], &[]);
        check(
            "by the book, interleaved",
            &[
                (nought, "a", "f", ""),
                (one, "b", "g", ""),
                (nought, "", "", "{\"x\":"),
                (one, "", "", "{}"),
                (nought, "", "", "1}"),
            ],
            &[("a", "f", "{\"x\":1}"), ("b", "g", "{}")],
        );
        check(
            "late id",
            &[(nought, "", "f", ""), (nought, "", "", "{"), (nought, "a", "", "}")],
            &[("a", "f", "{}")],
        );
        check(
            "name in pieces",
            &[(nought, "a", "get_", ""), (nought, "", "time", ""), (nought, "", "", "{}")],
            &[("a", "get_time", "{}")],
        );
        check(
            "name and id with every piece",
            &[(nought, "a", "f", "{"), (nought, "a", "f", "\"x\":1"), (nought, "a", "f", "}")],
            &[("a", "f", "{\"x\":1}")],
        );
        check(
            "every index 0, another id",
            &[(nought, "a", "f", "{}"), (nought, "b", "f", "{\"x\":"), (nought, "", "", "1}")],
            &[("a", "f", "{}"), ("b", "f", "{\"x\":1}")],
        );
        check(
            "no index",
            &[(None, "a", "f", "{"), (None, "", "", "}"), (None, "b", "g", "{}")],
            &[("a", "f", "{}"), ("b", "g", "{}")],
        );
        check(
            "no index, late id",
            &[(None, "", "f", ""), (None, "a", "", "{}")],
            &[("a", "f", "{}")],
        );
        check(
            "duplicate id",
            &[(nought, "a", "f", "{}"), (one, "a", "g", "{}"), (Some(2), "a", "g", "{}")],
            &[("a", "f", "{}"), ("a_2", "g", "{}"), ("a_3", "g", "{}")],
        );
        check(
            "a made-up id is taken too",
            &[(nought, "a", "f", "{}"), (one, "a_2", "g", "{}"), (Some(2), "a", "h", "{}")],
            &[("a", "f", "{}"), ("a_2", "g", "{}"), ("a_3", "h", "{}")],
        );
        check(
            "a far index takes no memory",
            &[(Some(u64::MAX), "a", "f", "{}")],
            &[("a", "f", "{}")],
        );
        check(
            "no index and the same id for whole calls",
            &[(None, "a", "f", "{\"x\":1}"), (None, "a", "f", "{\"x\":2}")],
            &[("a", "f", "{\"x\":1}"), ("a_2", "f", "{\"x\":2}")],
        );
        check("a ghost", &[(nought, "", "", "")], &[]);
    }

    #[test]
    fn neither_index_nor_id_still_gives_two_calls() {
        let (calls, _) = assemble(&[
            (None, "", "f", "{\"a\":1}"),
            (None, "", "f", "{\"a\":2}"),
            (Some(0), "", "g", "{}"),
            (Some(0), "", "g", "{}"),
        ]);
        let names: Vec<_> = calls.iter().map(|(_, name, args)| format!("{name}{args}")).collect();
        assert_eq!(names, ["f{\"a\":1}", "f{\"a\":2}", "g{}", "g{}"]);
        let ids: BTreeSet<_> = calls.iter().map(|(id, ..)| id.clone()).collect();
        assert_eq!(ids.len(), 4);
        assert!(ids.iter().all(|id| id.starts_with("call_")));
    }

    #[test]
    fn endless_calls_are_refused() {
        let (mut calls, mut begun) = (Calls::default(), Vec::new());
        let added = (0..10_000)
            .take_while(|index| {
                let delta =
                    CallDelta { index: Some(*index), name: "f".into(), ..CallDelta::default() };
                calls.add(delta, &mut begun).is_ok()
            })
            .count();
        assert_eq!(added, MOST);
    }
}
