//! Whatever Markdown a model writes arrives as it was meant: read back from what was sent.

use super::bench::Bench;
use famulus_core::outbound::Channel as _;
use proptest::prelude::*;

/// What models write, and what they should not.
fn markdown() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-zA-Z]{1,12}",
        Just("😀".to_owned()),
        Just("👨‍👩‍👧‍👦".to_owned()),
        Just("שלום".to_owned()),
        Just("e\u{301}".to_owned()),
        "[<>&\"'*_`~|\\[\\]()#.!-]{1,3}",
    ];
    let words = proptest::collection::vec(word, 1..12).prop_map(|words| words.join(" "));
    let styled = (words.clone(), 0..7).prop_map(|(words, style)| match style {
        0 => format!("**{words}**"),
        1 => format!("*{words}*"),
        2 => format!("~~{words}~~"),
        3 => format!("`{}`", words.replace('`', "")),
        4 => format!("[{words}](https://example.org/?a=1&b=\"2\")"),
        5 => format!("**bold *both {words}* more**"),
        _ => words,
    });
    let line = proptest::collection::vec(styled, 1..4).prop_map(|parts| parts.join(" "));
    let block = (line, 0..8).prop_map(|(line, kind)| match kind {
        0 => format!("# {line}"),
        1 => format!("- {line}\n- {line}\n  - {line}"),
        2 => format!("1. {line}\n2. {line}"),
        3 => format!("> {line}\n> {line}"),
        4 => format!("```rust\n{}\n```", line.replace("```", "")),
        5 => format!("| a | b |\n|---|---|\n| {} | x |", line.replace('|', "/")),
        6 => "---".to_owned(),
        _ => line,
    });
    proptest::collection::vec(block, 1..40).prop_map(|blocks| blocks.join("\n\n"))
}

/// What a person sees of a text: line breaks and spaces may be left out where it is cut.
fn seen(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sent_is_taken_and_reads_as_it_was_written(text in markdown()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new().await;
            let message = bench.message(&text);
            for piece in 0..bench.channel.pieces(&message) {
                // The peer refuses what is too long, and any HTML that the real one refuses.
                bench.channel.send(&message, piece).await.unwrap();
            }
            let plain = bench.telegram.calls().iter().any(|(method, asked)| {
                method == "sendmessage" && asked.get("parse_mode").is_none()
            });
            assert!(!plain, "a rendering was refused: {text}");
            let sent = bench.telegram.sent_to(7);
            let arrived: String = sent.iter().map(|one| one.text.as_str()).collect();
            // The same Markdown in one piece, as another channel would show it.
            let whole = famulus_channels::shown(&text);
            assert_eq!(seen(&arrived), seen(&whole), "{text}");
        });
    }
}
