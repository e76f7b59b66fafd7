//! Notices a turn that goes in circles: the same calls again and again, or two that alternate.

use famulus_core::message::ToolCall;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Identical steps in a row that count as a circle.
pub const IN_A_ROW: usize = 3;

/// What a step asked for, as a number: equal for equal calls, whatever the order of object keys.
pub type Fingerprint = u64;

/// Fingerprints the calls of one step.
pub fn fingerprint<'a>(calls: impl Iterator<Item = &'a ToolCall>) -> Fingerprint {
    let mut each: Vec<String> =
        calls.map(|call| format!("{} {}", call.name, canonical(&call.arguments))).collect();
    each.sort();
    let mut hash = Sha256::new();
    for call in each {
        hash.update((call.len() as u64).to_be_bytes());
        hash.update(call.as_bytes());
    }
    let digest = hash.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(first)
}

/// Whether the latest steps repeat: A A A, or A B A B.
pub fn is_circle(steps: &[Fingerprint]) -> bool {
    let in_a_row =
        steps.last_chunk::<IN_A_ROW>().is_some_and(|last| last.iter().all(|step| *step == last[0]));
    let alternating =
        steps.last_chunk::<4>().is_some_and(|[a, b, c, d]| a == c && b == d && a != b);
    in_a_row || alternating
}

/// Arguments with object keys in order; text that is not JSON stands for itself.
fn canonical(arguments: &str) -> String {
    serde_json::from_str::<Value>(arguments)
        .map_or_else(|_| arguments.to_owned(), |value| sorted(&value).to_string())
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            Value::Object(keys.into_iter().map(|k| (k.clone(), sorted(&fields[k]))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "x".into(), name: name.into(), arguments: arguments.into() }
    }

    #[test]
    fn a_fingerprint_ignores_key_order_and_call_order_and_ids() {
        let a = [call("t", r#"{"a":1,"b":[{"c":2,"d":3}]}"#), call("u", "{}")];
        let b = [call("u", " { } "), call("t", r#"{"b":[{"d":3,"c":2}],"a":1}"#)];
        assert_eq!(fingerprint(a.iter()), fingerprint(b.iter()));
        assert_ne!(fingerprint(a.iter()), fingerprint(a[..1].iter()));
        assert_ne!(
            fingerprint([call("t", "{")].iter()),
            fingerprint([call("t", "{ ")].iter()),
            "malformed arguments are compared as text"
        );
    }

    #[test]
    fn circles() {
        let check = |steps: &[u64], expected| assert_eq!(is_circle(steps), expected, "{steps:?}");
        check(&[], false);
        check(&[1, 1], false);
        check(&[1, 1, 1], true);
        check(&[2, 1, 1, 1], true);
        check(&[1, 1, 1, 2], false);
        check(&[1, 2, 1], false);
        check(&[1, 2, 1, 2], true);
        check(&[9, 1, 2, 1, 2], true);
        check(&[1, 2, 3, 1, 2, 3], false);
    }
}
