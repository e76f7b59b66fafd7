//! Answers as models give them, and what a person sees of them: written down here, and not worked out by
//! what is tested.

use super::bench::Bench;
use famulus_core::outbound::Channel as _;
use famulus_scripted_telegram::{Entity, Message};

struct Answer {
    markdown: &'static str,
    shown: &'static str,
    /// Each with the text that it covers, in the order of the text and the outermost first.
    styles: &'static [(&'static str, &'static str)],
}

const ANSWERS: [Answer; 5] = [
    Answer {
        markdown: "Run this:\n\n```rust\nfn less<T: Ord>(a: &T, b: &T) -> bool {\n    a < b && true\n}\n```\n\nThen `cargo test --lib`.",
        shown: "Run this:\n\nfn less<T: Ord>(a: &T, b: &T) -> bool {\n    a < b && true\n}\n\nThen cargo test --lib.",
        styles: &[
            ("pre rust", "fn less<T: Ord>(a: &T, b: &T) -> bool {\n    a < b && true\n}"),
            ("code", "cargo test --lib"),
        ],
    },
    Answer {
        markdown: "## Prices 🍵\n\n| Tea | €/kg |\n|:----|-----:|\n| Sencha | 42 |\n| Oolong *fine* | 180 |\n\nThe **first *and* only** one is *cheaper*.",
        shown: "Prices 🍵\n\nTea          €/kg\n───────────  ────\nSencha       42\nOolong fine  180\n\nThe first and only one is cheaper.",
        styles: &[
            ("bold", "Prices 🍵"),
            ("pre", "Tea          €/kg\n───────────  ────\nSencha       42\nOolong fine  180"),
            ("bold", "first and only"),
            ("italic", "and"),
            ("italic", "cheaper"),
        ],
    },
    Answer {
        markdown: "1. **Pack**\n   - socks\n   - a [map](https://maps.example/?q=a&b=c)\n2. Go\n   1. by *train*\n   2. on foot\n\n- [x] tickets\n- [ ] [no link](javascript:alert(1))",
        shown: "1. Pack\n   • socks\n   • a map\n2. Go\n   1. by train\n   2. on foot\n\n• ☑ tickets\n• ☐ no link",
        styles: &[
            ("bold", "Pack"),
            ("text_link https://maps.example/?q=a&b=c", "map"),
            ("italic", "train"),
        ],
    },
    Answer {
        markdown: "> שלום **עולם** 👨‍👩‍👧‍👦\n\nمرحبا `print()` ~~לא~~ é",
        shown: "שלום עולם 👨‍👩‍👧‍👦\n\nمرحبا print() לא é",
        styles: &[
            ("blockquote", "שלום עולם 👨‍👩‍👧‍👦"),
            ("bold", "עולם"),
            ("code", "print()"),
            ("strikethrough", "לא"),
        ],
    },
    Answer {
        markdown: "Use `<b>` &amp; 1 < 2; a\\_b \\*plain\\* snake_case_name and `a*b*c`.",
        shown: "Use <b> & 1 < 2; a_b *plain* snake_case_name and a*b*c.",
        styles: &[("code", "<b>"), ("code", "a*b*c")],
    },
];

async fn sent(bench: &Bench, markdown: &str) -> Vec<Message> {
    let before = bench.telegram.sent_to(7).len();
    let message = bench.message(markdown);
    for piece in 0..bench.channel.pieces(&message) {
        bench.channel.send(&message, piece).await.unwrap();
    }
    bench.telegram.sent_to(7).split_off(before)
}

/// Telegram counts in UTF-16.
fn covered(message: &Message, entity: &Entity) -> (String, String) {
    let units: Vec<u16> = message.text.encode_utf16().collect();
    let text = String::from_utf16(&units[entity.offset..][..entity.length]).unwrap();
    let detail = entity.detail.iter().map(|detail| format!(" {detail}"));
    (format!("{}{}", entity.kind, detail.collect::<String>()), text)
}

#[tokio::test]
async fn an_answer_arrives_with_its_styles() {
    let bench = Bench::new().await;
    for Answer { markdown, shown, styles } in ANSWERS {
        let [message] = &sent(&bench, markdown).await[..] else {
            panic!("{markdown} is one message")
        };
        assert_eq!(message.text, shown, "{markdown}");
        let found: Vec<_> = message.entities.iter().map(|one| covered(message, one)).collect();
        let expected: Vec<_> =
            styles.iter().map(|(kind, text)| ((*kind).to_owned(), (*text).to_owned())).collect();
        assert_eq!(found, expected, "{markdown}");
    }
}

/// Each piece is code again, and nothing of it is lost where it is cut.
#[tokio::test]
async fn code_that_is_longer_than_a_message_is_code_in_each() {
    let bench = Bench::new().await;
    let lines: Vec<String> =
        (0..400).map(|n| format!("    let value_{n} = less(a, {n}) && \"😀\" < b;")).collect();
    let markdown = format!("Long:\n\n```rust\n{}\n```\n\nThat is all.", lines.join("\n"));
    let pieces = sent(&bench, &markdown).await;
    assert!(pieces.len() > 3, "{}", pieces.len());
    let (mut code, mut outside) = (Vec::new(), Vec::new());
    for piece in &pieces {
        assert!(piece.text.encode_utf16().count() <= 4096);
        let mut rest = piece.text.clone();
        for entity in &piece.entities {
            let (kind, text) = covered(piece, entity);
            assert_eq!(kind, "pre rust");
            rest = rest.replacen(&text, "", 1);
            code.extend(text.lines().map(|line| line.trim().to_owned()));
        }
        outside.push(rest.trim().to_owned());
    }
    assert_eq!(code, lines.iter().map(|line| line.trim()).collect::<Vec<_>>());
    assert_eq!(outside.concat(), "Long:That is all.");
}
