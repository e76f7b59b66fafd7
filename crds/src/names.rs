//! The names of the objects that the operator makes for a Plugin, and of one that it is brought.
//!
//! They follow from the name of the Plugin object, `metadata.name`, and from nothing else. So a
//! retry meets what an earlier try made instead of making it twice. They are made for one
//! namespace, the Plugin's own. Two Plugins in it never share a name, and no two children of one
//! do.
//!
//! A Plugin that was deleted and made anew has the same names as before. Who applies a child looks
//! at its owner reference: the UID tells the two apart.
//!
//! ```text
//! weather                         weather-runner
//! weather.tools.example           weather-tools-e-4mzq…-runner     a dot is no part of a label
//! a-name-of-two-hundred-letters…  a-name-of-two-h-b7ko…-runner     too long
//! ```

use sha2::{Digest, Sha256};

use crate::BuildKey;

/// The most letters of a [`stem`].
///
/// The longest child is a build with its key: 36 + `-build-` + 10 = 53 of the 63 letters that a label
/// may have; its pods add six. A runner's pods add `-` and ten letters of their ReplicaSet, and then
/// have five letters of their own behind letter 58: 36 + `-runner` + 11 = 54.
pub const STEM_LETTERS: usize = 36;

/// Letters of the hash in a shortened stem. Each holds 5 bits, 100 in all: two names that share a
/// hash would take some 2^50 attempts to find.
const HASH_LETTERS: usize = 20;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// An object that the operator makes for a Plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// The Deployment whose Pods run the plugin's tools.
    Runner,
    /// The Job that builds, and the Secret with its order.
    Build(BuildKey),
    /// The volume claim for the plugin's files.
    State,
    /// The ServiceAccount without rights that build and runner use.
    Identity,
    /// The Secret that is mounted into the runner.
    Mounted,
    /// The Secret with values of the configuration that the app brings, and the operator takes.
    Values,
}

/// The name of a child: a DNS label, at most 63 letters long.
///
/// No role ends in another one behind a hyphen. So a name can be read back, and two children share
/// one only if their Plugins share a stem.
pub fn child(plugin: &str, child: Child) -> String {
    let stem = stem(plugin);
    match child {
        Child::Runner => format!("{stem}-runner"),
        Child::Build(key) => format!("{stem}-build-{key}"),
        Child::State => format!("{stem}-state"),
        Child::Identity => format!("{stem}-identity"),
        Child::Mounted => format!("{stem}-mounted"),
        Child::Values => format!("{stem}-values"),
    }
}

/// What stands for a Plugin in the names and labels of its children: a DNS label of at most
/// [`STEM_LETTERS`], another one for each `metadata.name`.
///
/// It is the name itself where that fits. Otherwise it is the beginning of the name and a hash of
/// all of it. A name that looks like the latter is shortened too, so that nobody can take another
/// Plugin's stem by choosing it as a name.
pub fn stem(plugin: &str) -> String {
    if fits(plugin) {
        return plugin.to_owned();
    }
    let letters = plugin.chars().map(|letter| if is_plain(letter) { letter } else { '-' });
    let begin: String = letters.take(STEM_LETTERS - HASH_LETTERS - 1).collect();
    let begin = match begin.trim_matches('-') {
        "" => "x",
        begin => begin,
    };
    format!("{begin}-{}", hash(plugin))
}

fn fits(name: &str) -> bool {
    let is_label = name.chars().all(is_plain) && name == name.trim_matches('-');
    is_label && (1..=STEM_LETTERS).contains(&name.len()) && !looks_shortened(name)
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
}

fn looks_shortened(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(_, end)| {
        end.len() == HASH_LETTERS && end.bytes().all(|letter| ALPHABET.contains(&letter))
    })
}

fn hash(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let bits = digest.iter().take(16).fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    let letter = |place: usize| char::from(ALPHABET[(bits >> (5 * place)) as usize % 32]);
    (0..HASH_LETTERS).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::plugin::Source;

    fn children() -> [Child; 7] {
        let key = |refresh| BuildKey::source(&Source::default(), Some(refresh));
        [
            Child::Runner,
            Child::Build(key("one")),
            Child::Build(key("two")),
            Child::State,
            Child::Identity,
            Child::Mounted,
            Child::Values,
        ]
    }

    fn is_label(name: &str) -> bool {
        (1..=63).contains(&name.len())
            && name.chars().all(is_plain)
            && !name.starts_with('-')
            && !name.ends_with('-')
    }

    #[test]
    fn names_are_plain_where_they_can_be() {
        let table = [
            ("weather", "weather"),
            ("a-name-of-exactly-thirty-six-letters", "a-name-of-exactly-thirty-six-letters"),
            ("a-name-of-exactly-thirty-seven-letter", "a-name-of-exact-setfeazkjnr2jwgpnhmu"),
            ("weather.example", "weather-example-gu5xpfyq7excx4j463ve"),
            ("weather-example", "weather-example"),
        ];
        for (plugin, expected) in table {
            assert_eq!(stem(plugin), expected, "{plugin}");
        }
        assert_eq!(child("weather", Child::Runner), "weather-runner");
        let key = BuildKey::source(&Source::default(), None);
        assert_eq!(child("weather", Child::Build(key)), format!("weather-build-{key}"));
    }

    #[test]
    fn a_stem_that_is_chosen_as_a_name_is_not_shared() {
        let long = "a".repeat(253);
        let taken = stem(&long);
        assert_ne!(stem(&taken), taken);
        assert_ne!(stem(&stem(&taken)), stem(&taken));
    }

    #[test]
    fn nobody_shares_a_name() {
        let long = "plugin-".repeat(36);
        let shortened = stem(&long);
        let plugins = [
            "a",
            "a-runner",
            "a-runner-runner",
            "a-build",
            "a-build-1",
            "a-state",
            "a.b",
            "a-b",
            "a.b.c",
            "a-b.c",
            "a.b-c",
            "a-b-c",
            &long,
            &long[..251],
            &long[..20],
            &shortened,
        ];
        let mut owners = BTreeMap::new();
        for plugin in plugins {
            for role in children() {
                let name = child(plugin, role);
                assert!(is_label(&name), "{name}");
                let before = owners.insert(name.clone(), (plugin, role));
                assert_eq!(before, None, "{name} belongs to {plugin} too");
            }
        }
    }

    proptest! {
        #[test]
        fn every_name_of_an_object_gives_labels(plugin in "[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?") {
            prop_assert!(stem(&plugin).len() <= STEM_LETTERS);
            for role in children() {
                let name = child(&plugin, role);
                prop_assert!(is_label(&name), "{}", name);
            }
        }

        #[test]
        fn two_plugins_have_two_stems(
            one in "[ab]([ab.-]{0,60}[ab])?",
            other in "[ab]([ab.-]{0,60}[ab])?",
        ) {
            prop_assert_eq!(one == other, stem(&one) == stem(&other));
        }

        #[test]
        fn anything_at_all_gives_a_label(plugin in ".{0,40}") {
            prop_assert!(is_label(&stem(&plugin)), "{}", stem(&plugin));
        }
    }
}
