//! Openings and endings of a sentence, word by word, without regard to case.

/// Without the words that only ask kindly.
pub(crate) fn without_politeness(mut text: &str) -> &str {
    const POLITE: &[&str] = &[
        "please",
        "can you",
        "could you",
        "would you",
        "will you",
        "i want you to",
        "i'd like you to",
        "ok",
        "okay",
        "hey",
        "also",
        "and",
        "then",
        "now",
        "famulus",
    ];
    while let Some(rest) = POLITE.iter().find_map(|opening| strip(text, opening)) {
        if rest.is_empty() {
            break;
        }
        text = rest;
    }
    text
}

/// What a command is about, without the words that lead there.
pub(crate) fn subject(text: &str) -> String {
    const LEADS: &[&str] = &[
        "about", "called", "titled", "named", "that", "for", "to", "of", "number", "no", "#", ":",
    ];
    let mut text = text;
    while let Some(rest) = LEADS.iter().find_map(|lead| strip(text, lead)) {
        text = rest;
    }
    ended(text.trim_start_matches('#')).trim_matches('"').to_owned()
}

/// Without the marks at the end of a sentence.
pub(crate) fn ended(text: &str) -> &str {
    text.trim().trim_end_matches(['.', '!', '?', ',', ';', ' '])
}

/// What follows the opening if the text begins with its words.
pub(crate) fn strip<'t>(text: &'t str, opening: &str) -> Option<&'t str> {
    let mut rest = text.trim_start();
    for word in opening.split(' ') {
        let head = rest.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word))?;
        let tail = &rest[head.len()..];
        let whole = !word.ends_with(char::is_alphanumeric)
            || !tail.starts_with(|c: char| c.is_alphanumeric() || c == '\'' || c == '-');
        if !whole {
            return None;
        }
        rest = tail.trim_start();
        // "Please, remember": a comma parts nothing.
        rest = rest.strip_prefix(',').map_or(rest, str::trim_start);
    }
    Some(rest)
}

pub(crate) fn strip_end<'t>(text: &'t str, ending: &str) -> &'t str {
    let start = text.len().saturating_sub(ending.len());
    match text.get(start..) {
        Some(tail) if tail.eq_ignore_ascii_case(ending) => {
            let head = &text[..start];
            if head.is_empty() || head.ends_with(' ') { head.trim_end() } else { text }
        }
        Some(_) | None => text,
    }
}
