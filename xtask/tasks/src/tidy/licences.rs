//! The licences of everything that is built into our programs.

use std::collections::BTreeSet;

use super::Complaint;
use super::foreign::Foreign;

/// Permissive licences, and the one with copyleft for its own files only (MPL). The same list is
/// in `deny.toml`.
const ALLOWED: [&str; 16] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "OpenSSL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(super) fn check(built: &BTreeSet<Foreign>) -> Vec<Complaint> {
    let refused = built.iter().filter(|foreign| !is_allowed(&foreign.licence));
    let complaint = |Foreign { package, licence }: &Foreign| {
        format!("{package}: its licence {licence:?} is not on the list of allowed ones")
    };
    refused.map(complaint).collect()
}

/// Whether an SPDX expression can be met with the allowed licences alone. The old way of writing
/// `A/B` for a choice counts too.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    choice(&mut rest) == Some(true) && rest.is_empty()
}

/// `a OR b OR …`; `None` when it cannot be read.
fn choice(words: &mut &[&str]) -> Option<bool> {
    let mut any = all(words)?;
    while take(words, "OR") {
        any |= all(words)?;
    }
    Some(any)
}

/// `a AND b AND …`, which binds closer than `OR`.
fn all(words: &mut &[&str]) -> Option<bool> {
    let mut every = one(words)?;
    while take(words, "AND") {
        every &= one(words)?;
    }
    Some(every)
}

fn one(words: &mut &[&str]) -> Option<bool> {
    if take(words, "(") {
        let inner = choice(words)?;
        return take(words, ")").then_some(inner);
    }
    let mut licence = (*words.first()?).to_owned();
    *words = &words[1..];
    if take(words, "WITH") {
        licence = format!("{licence} WITH {}", words.first()?);
        *words = &words[1..];
    }
    Some(ALLOWED.contains(&licence.as_str()))
}

fn take(words: &mut &[&str], word: &str) -> bool {
    let here = words.first() == Some(&word);
    if here {
        *words = &words[1..];
    }
    here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_or_refused() {
        let table = [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only", true),
            ("MIT AND GPL-3.0-only", false),
            ("MIT OR ISC AND GPL-3.0-only", true),
            ("(MIT OR ISC) AND GPL-3.0-only", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR AGPL-3.0", true),
            ("LGPL-3.0 WITH LLVM-exception", false),
            ("", false),
            ("(MIT", false),
            ("MIT MIT", false),
        ];
        for (expression, allowed) in table {
            assert_eq!(is_allowed(expression), allowed, "{expression:?}");
        }
    }
}
