//! Words that matter, and what matches them.

use std::collections::BTreeSet;

/// Words that say nothing of what a sentence is about.
const EMPTY: &[&str] = &[
    "a", "about", "am", "an", "and", "any", "are", "at", "be", "call", "called", "can", "could",
    "did", "do", "does", "for", "from", "has", "have", "how", "i", "in", "is", "it", "its", "know",
    "me", "memory", "mine", "my", "name", "named", "of", "on", "or", "our", "please", "recall",
    "remember", "s", "say", "tell", "that", "the", "their", "there", "this", "to", "told", "was",
    "we", "what", "when", "where", "which", "who", "will", "with", "would", "you", "your",
];

/// Lower-case words without their ends, in order of appearance.
fn stems(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

fn stem(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(short) if short.chars().count() >= 3 && !short.ends_with('s') => short,
        Some(_) | None => word,
    }
}

/// The words of a text that say what it is about.
pub(crate) fn keywords(text: &str) -> BTreeSet<String> {
    stems(text)
        .filter(|word| !EMPTY.contains(&word.as_str()))
        .map(|word| stem(&word).to_owned())
        .collect()
}

/// Whether a word says what a sentence is about.
pub(crate) fn is_telling(word: &str) -> bool {
    !keywords(word).is_empty()
}

/// The texts that share the most keywords with what is asked for, at least one; by position.
pub(crate) fn best_matches(asked: &str, texts: &[String]) -> Vec<usize> {
    let asked = keywords(asked);
    let scores: Vec<usize> =
        texts.iter().map(|text| keywords(text).intersection(&asked).count()).collect();
    let best = scores.iter().copied().max().unwrap_or(0);
    if best == 0 {
        return Vec::new();
    }
    scores.iter().enumerate().filter(|(_, score)| **score == best).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_match_wins() {
        let texts =
            ["my cat is called Miso", "I like green tea", "my car is green"].map(ToOwned::to_owned);
        let check = |asked: &str, expected: &[usize]| {
            assert_eq!(best_matches(asked, &texts), expected, "{asked}");
        };
        check("what is my cat called?", &[0]);
        check("Cats", &[0]);
        check("green", &[1, 2]);
        check("green cars", &[2]);
        check("what is my name?", &[]);
        check("", &[]);
    }
}
