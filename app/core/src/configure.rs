//! `/configure PLUGIN KEY VALUE`, as the owner writes it in a chat. Pure.
//!
//! The value may be secret. So every text that begins with the word is this command, a malformed one too, and
//! of what stands behind the word nothing is kept, shown or logged.

use std::fmt;

/// The word that such a text begins with, in small or capital letters.
pub const WORD: &str = "/configure";

/// What a key of a plugin is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub plugin: String,
    pub key: String,
    pub value: Hidden,
}

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for whoever is to have it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Whether a text is this command, well-formed or not.
pub fn is_configure(text: &str) -> bool {
    behind(text).is_some()
}

/// What the command says; nothing where the plugin, the key or the value is missing. The value may have spaces
/// and lines.
pub(crate) fn assignment(text: &str) -> Option<Assignment> {
    // Platforms name the bot behind the word: `/configure@bot`.
    let rest = match behind(text)?.strip_prefix('@') {
        Some(named) => named.trim_start_matches(|letter: char| !letter.is_whitespace()),
        None => behind(text)?,
    };
    if !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let (plugin, rest) = rest.trim().split_once(char::is_whitespace)?;
    let (key, value) = rest.trim_start().split_once(char::is_whitespace)?;
    Some(Assignment {
        plugin: plugin.to_owned(),
        key: key.to_owned(),
        value: Hidden::new(value.trim()),
    })
}

/// What stands behind the word. Whoever forgets the space behind it has written a value all the same.
fn behind(text: &str) -> Option<&str> {
    let (word, rest) = text.trim_start().split_at_checked(WORD.len())?;
    word.eq_ignore_ascii_case(WORD).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_a_plugin_a_key_and_a_value() {
        let check = |text: &str, expected: Option<[&str; 3]>| {
            let found = assignment(text);
            let found = found.as_ref().map(|it| [&*it.plugin, &*it.key, it.value.expose()]);
            assert_eq!(found, expected, "{text}");
            assert!(is_configure(text), "{text}");
        };
        let usual = Some(["weather", "api_key", "s3cret"]);
        check("/configure weather api_key s3cret", usual);
        check("  /Configure\tweather \u{a0} api_key\n s3cret \n", usual);
        check("/CONFIGURE@famulus_bot weather api_key s3cret", usual);
        check("/configure a b two words\nand a line ", Some(["a", "b", "two words\nand a line"]));
        check("/configure a b {\"c\": [1]}", Some(["a", "b", "{\"c\": [1]}"]));
        for malformed in [
            "/configure",
            " /configure \n",
            "/configure weather",
            "/configure weather s3cret",
            "/configure weather s3cret  ",
            "/configure@famulus_bot",
            "/configureweather api_key s3cret x",
            "/configure: weather api_key s3cret",
        ] {
            check(malformed, None);
        }
    }

    #[test]
    fn a_sentence_about_it_is_none() {
        for text in [
            "",
            "configure weather api_key x",
            "please /configure weather a b",
            "/config a b c",
            "/ä",
        ] {
            assert!(!is_configure(text), "{text}");
            assert_eq!(assignment(text), None, "{text}");
        }
    }

    #[test]
    fn a_value_is_not_shown() {
        let shown = format!("{:?}", assignment("/configure weather api_key s3cret"));
        assert!(shown.contains("weather") && shown.contains("api_key"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
