//! Tests of the inline extractor: what is taken out, and that cutting changes nothing.

use super::inline::{AcceptedCalls, Extractor, Inline};
use super::inline_call::InlineCall;
use famulus_core::tool::ToolSpec;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

fn tools() -> Arc<[ToolSpec]> {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        schema: json!({
            "properties": {
                "zone": {"type": "string"},
                "every": {"type": ["integer", "null"]},
                "mode": {"anyOf": [{"$ref": "#/$defs/mode"}, {"type": "null"}]},
                "list": {"type": "array"},
            },
            "$defs": {"mode": {"enum": ["1", "2"]}},
        }),
    };
    [tool("get_time"), tool("f")].into()
}

fn extract(pieces: &[&str], obey: AcceptedCalls) -> (String, Vec<(String, String)>) {
    let mut extractor = Extractor::new(tools(), obey);
    let (mut text, mut calls) = (String::new(), Vec::new());
    let mut take = |items: Vec<Inline>| {
        for item in items {
            match item {
                Inline::Text(piece) => text.push_str(&piece),
                Inline::Call(InlineCall { name, arguments }) => calls.push((name, arguments)),
            }
        }
    };
    for piece in pieces {
        take(extractor.push(piece));
    }
    take(extractor.finish());
    (text, calls)
}

#[test]
fn calls_are_taken_out_of_the_text() {
    let check = |input: &str, text: &str, calls: &[(&str, &str)]| {
        let expected: Vec<_> =
            calls.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(
            extract(&[input], AcceptedCalls::Offered),
            (text.to_owned(), expected),
            "{input}"
        );
    };
    check("plain < text > of <b>life</b>", "plain < text > of <b>life</b>", &[]);
    check(
        r#"Let me see. <tool_call>{"name":"get_time","arguments":{"zone": "UTC"}}</tool_call> ok"#,
        "Let me see.  ok",
        &[("get_time", r#"{"zone": "UTC"}"#)],
    );
    check(
        "<tool_call>\n{\"name\": \"f\", \"parameters\": \"{\\\"a\\\":1}\"}\n</tool_call>",
        "",
        &[("f", r#"{"a":1}"#)],
    );
    check(r#"<tool_call>{"name":"f"}</tool_call>"#, "", &[("f", "{}")]);
    check(r#"<tool_call>{"name":"f"}"#, "", &[("f", "{}")]);
    check(
        r#"<tool_call>{"name":"f"}<tool_call>{"name":"f","arguments":{}}</tool_call>"#,
        "",
        &[("f", "{}"), ("f", "{}")],
    );
    check(
        r#"<tool_call>{"name":"f","arguments":{"a":"</tool_call>"}}</tool_call>."#,
        ".",
        &[("f", r#"{"a":"</tool_call>"}"#)],
    );
    check(
        "<tool_call>{\"name\":\"f\",\"arguments\":{oops}}</tool_call>",
        "",
        &[("f", "{\"name\":\"f\",\"arguments\":{oops}}")],
    );
    check(
        "<tool_call>{\"name\":\"f\",\"arguments\":{</tool_call>",
        "",
        &[("f", "{\"name\":\"f\",\"arguments\":{")],
    );
    check(
        "<tool_call>{\"name\":\"f\",</tool_call></tool_call>",
        "</tool_call>",
        &[("f", "{\"name\":\"f\",")],
    );
    check(
        "a\n<tool_call>\n<function=get_time>\n<parameter=zone>\nUTC\n</parameter>\n</function>\n</tool_call>\n",
        "a\n\n",
        &[("get_time", r#"{"zone":"UTC"}"#)],
    );
    check(
        "<function=f><parameter=every>600</parameter><parameter=zone>1</parameter></function>\n</tool_call> b",
        " b",
        &[("f", r#"{"every":600,"zone":"1"}"#)],
    );
    check(
        "<function=f><parameter=every>null</parameter><parameter=mode>1</parameter></function>b",
        "b",
        &[("f", r#"{"every":null,"mode":"1"}"#)],
    );
    check(
        "<function=f><parameter=list>[1]\n<parameter=other>[2]<parameter=last>7</function>",
        "",
        &[("f", r#"{"list":[1],"other":[2],"last":"7"}"#)],
    );
    check(
        "<tool_call><function=f></function><function=\"f\"></function></tool_call>",
        "",
        &[("f", "{}"), ("f", "{}")],
    );
}

#[test]
fn what_is_no_call_stays_text() {
    let check = |input: &str| {
        assert_eq!(extract(&[input], AcceptedCalls::Offered), (input.to_owned(), Vec::new()));
    };
    check("<tool_call>");
    check("<tool_call");
    check("<tool_call> is a tag");
    check(r#"<tool_call>{"name":"unknown","arguments":{}}</tool_call>"#);
    check(r#"<tool_call>{"name":"f","argum"#);
    check("<tool_call>{\"no\":1}</tool_call>");
    check("<function=unknown><parameter=a>1</parameter></function>");
    check("<function=f><parameter=a>1</parameter>");
    check("<function=f\n>x</function>");
    check("<function=");
    check(&format!("<function={}>", "x".repeat(500)));
    check("</tool_call> alone");
}

#[test]
fn the_xml_dialect_obeys_every_name() {
    let input = r#"<tool_call>{"name":"unknown","arguments":{}}</tool_call>"#;
    let expected = vec![("unknown".to_owned(), "{}".to_owned())];
    assert_eq!(extract(&[input], AcceptedCalls::All), (String::new(), expected));
}

#[test]
fn a_text_that_is_no_call_is_not_held_back() {
    let mut extractor = Extractor::new(tools(), AcceptedCalls::Offered);
    let mut shown = |text: &str| extractor.push(text);
    assert_eq!(shown("a <"), [Inline::Text("a ".into())]);
    assert_eq!(shown("b"), [Inline::Text("<b".into())]);
    assert_eq!(shown("<function=nobody>"), [Inline::Text("<function=nobody>".into())]);
}

/// Pieces from which tags, calls, broken calls and plain text come about often.
fn scraps() -> impl Strategy<Value = String> {
    let scrap = prop::sample::select(vec![
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "<function=x>",
        "</function>",
        "<parameter=zone>",
        "</parameter>",
        r#"{"name":"f","arguments":{}}"#,
        r#"{"name":"f","arguments":{"a":"</tool_call>"}}"#,
        r#"{"name":"x"}"#,
        r#"{"name":"f","#,
        "{",
        "\"",
        " ",
        "\n",
        "<",
        "text ä🦀",
    ]);
    prop::collection::vec(scrap, 0..12).prop_map(|scraps| scraps.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn cutting_changes_nothing(input in scraps(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let chars: Vec<(usize, char)> = input.char_indices().collect();
        let mut at: Vec<usize> = cuts
            .iter()
            .filter(|_| !chars.is_empty())
            .map(|cut| chars[cut.index(chars.len())].0)
            .collect();
        at.sort_unstable();
        at.push(input.len());
        let mut pieces = Vec::new();
        let mut from = 0;
        for end in at {
            pieces.push(&input[from..end]);
            from = end;
        }
        let whole = extract(&[&input], AcceptedCalls::Offered);
        prop_assert_eq!(&extract(&pieces, AcceptedCalls::Offered), &whole);
        let single: Vec<&str> = input.split("").filter(|c| !c.is_empty()).collect();
        prop_assert_eq!(&extract(&single, AcceptedCalls::Offered), &whole);
    }
}
