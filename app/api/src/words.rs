//! What texts look like that are taken: said to clients as patterns, and held by the handlers.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Text that is not blank: a character that is no white space.
pub(crate) const WRITTEN: &str =
    r"[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";
/// The same, or nothing at all.
pub(crate) const WRITTEN_OR_EMPTY: &str =
    r"^$|[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";

/// How a conversation is named: by its id, or the main one.
pub(crate) struct ConversationName;

impl JsonSchema for ConversationName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ConversationName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"const": "main"}, {"type": "string", "format": "uuid"}]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_leave_out_white_space_and_nothing_else() {
        let class = WRITTEN.strip_prefix("[^").and_then(|it| it.strip_suffix(']')).unwrap();
        assert_eq!(WRITTEN_OR_EMPTY, format!("^$|{WRITTEN}"));
        let read = |text: &str| match text {
            r"\t" => '\t',
            r"\r" => '\r',
            " " => ' ',
            other => {
                let code = other.strip_prefix(r"\u").unwrap();
                char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap()
            }
        };
        let mut left_out = Vec::new();
        let mut rest = class;
        let mut next = || {
            let length = match rest.strip_prefix('\\').and_then(|rest| rest.chars().next()) {
                Some('u') => 6,
                Some(_) => 2,
                None => 1,
            };
            let (one, after) = rest.split_at_checked(length)?;
            rest = after;
            Some(one)
        };
        while let Some(one) = next() {
            if one == "-" {
                let (from, to): (char, char) = (left_out.pop().unwrap(), read(next().unwrap()));
                left_out.extend(from..=to);
            } else {
                left_out.push(read(one));
            }
        }
        let blank: Vec<char> = (char::MIN..=char::MAX).filter(|c| c.is_whitespace()).collect();
        assert_eq!(left_out, blank);
    }
}
