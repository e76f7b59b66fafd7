//! One way of saying it: what several members have has names, and a folder's module lies in it.

use std::collections::BTreeSet;

use super::Complaint;
use super::code::{Word, words};
use super::files::Source;

/// A tuple of so many members is a struct.
const MANY: usize = 4;

/// Types that are written small.
const SMALL: [&str; 19] = [
    "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64",
    "i128", "isize", "f32", "f64", "dyn", "impl",
];

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = folders(sources);
    for source in sources.iter().filter(|source| !is_test(&source.path)) {
        let words = words(&source.text);
        let words = &words[..before_tests(&words)];
        let path = &source.path;
        for line in tuple_types(words) {
            complaints.push(format!(
                "{path}:{line}: a tuple of {MANY} or more; give it a struct, whose members have names"
            ));
        }
        for line in tuple_parameters(words) {
            complaints.push(format!(
                "{path}:{line}: a parameter that is taken apart; give it a struct, or each member a \
                 parameter"
            ));
        }
    }
    complaints
}

/// Modules that stand beside the folder of their own modules.
fn folders(sources: &[Source]) -> Vec<Complaint> {
    let folders: BTreeSet<&str> =
        sources.iter().filter_map(|source| Some(source.path.rsplit_once('/')?.0)).collect();
    let beside = sources.iter().filter_map(|source| {
        let folder = source.path.strip_suffix(".rs").filter(|folder| folders.contains(folder))?;
        Some(format!("{}: move it into its folder, as {folder}/mod.rs", source.path))
    });
    beside.collect()
}

fn is_test(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| ["tests", "tests.rs", "benches"].contains(&part))
}

/// Where the tests of a file begin.
fn before_tests(words: &[Word<'_>]) -> usize {
    let begin = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let found = words.windows(begin.len() + 2).position(|window| {
        window.iter().zip(begin).all(|(word, begin)| word.text == begin)
            && window[begin.len() + 1].text == "{"
    });
    found.unwrap_or(words.len())
}

/// The lines of types that are tuples of many.
fn tuple_types(words: &[Word<'_>]) -> Vec<usize> {
    let before = |at: usize, back: usize| at.checked_sub(back).map_or("", |at| words[at].text);
    let begins = |at: usize| match before(at, 1) {
        ":" | "<" | "&" | "[" | "," => words[at].text == "(",
        ">" => words[at].text == "(" && before(at, 2) == "-",
        _ => false,
    };
    let many = (0..words.len()).filter(|at| begins(*at)).filter(|at| {
        let members = members(&words[at + 1..]);
        members.len() >= MANY && members.iter().all(|member| is_type(member))
    });
    many.map(|at| words[at].line).collect()
}

/// The lines of parameters of functions that are taken apart as they come in.
fn tuple_parameters(words: &[Word<'_>]) -> Vec<usize> {
    let mut lines = Vec::new();
    for at in (0..words.len()).filter(|at| words[*at].text == "fn") {
        let Some(open) = parameters(words, at + 1) else { continue };
        let apart = members(&words[open + 1..]).into_iter().filter_map(|member| member.first());
        lines.extend(apart.filter(|first| first.text == "(").map(|first| first.line));
    }
    lines
}

/// Where the parameters of the function with this name begin, behind its generics.
fn parameters(words: &[Word<'_>], name: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for at in name + 1..words.len() {
        match words[at].text {
            "<" => depth += 1,
            ">" if words[at - 1].text != "-" => depth = depth.saturating_sub(1),
            "(" if depth == 0 => return Some(at),
            "{" | ";" if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// What stands between commas until the parenthesis closes that these words begin behind.
fn members<'a, 'b>(words: &'b [Word<'a>]) -> Vec<&'b [Word<'a>]> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0_usize, 0);
    for (at, word) in words.iter().enumerate() {
        match word.text {
            ")" | "]" | "}" if depth == 0 => {
                if begin < at {
                    found.push(&words[begin..at]);
                }
                break;
            }
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            ">" if at > 0 && !["-", "="].contains(&words[at - 1].text) => {
                depth = depth.saturating_sub(1);
            }
            "," if depth == 0 => {
                found.push(&words[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// Whether this is a type and no value, as far as that can be told from how it begins.
fn is_type(member: &[Word<'_>]) -> bool {
    let mut words = member.iter().map(|word| word.text);
    let mut first = words.find(|word| !["&", "mut", "(", "["].contains(word));
    if first == Some("'") {
        first = words.nth(1);
    }
    let is_call = member.iter().any(|word| ["{", ".", "="].contains(&word.text));
    let path = words.next() == Some(":");
    !is_call
        && first.is_some_and(|first| {
            path || SMALL.contains(&first) || first.starts_with(char::is_uppercase)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<Complaint> {
        check(&[Source { path: path.to_owned(), text: text.to_owned() }])
    }

    #[test]
    fn many_members_have_names() {
        let product = |text: &str| complaints("app/core/src/turn.rs", text).len();
        for tuple in [
            "struct Routes(Vec<(Method, &'static str, Access, bool)>);",
            "fn of(line: &str) -> (u32, u32, u64, std::time::Duration) {}",
            "const TABLE: [(&str, u16, Kind, Kind); 2] = [];",
            "fn of(\n    (plugin, mount): (Plugin, Mount),\n) {}",
            "fn of<F: Fn(u8) -> Vec<u8>>(call: F, (a, b): (u8, u8)) {}",
        ] {
            assert_eq!(product(tuple), 1, "{tuple}");
            assert_eq!(complaints("app/core/tests/all.rs", tuple).len(), 0, "{tuple}");
            assert_eq!(product(&format!("#[cfg(test)]\nmod tests {{\n{tuple}\n}}")), 0, "{tuple}");
        }
        for fine in [
            "fn of(own: (u32, u32), name: &str) -> (u8, u8, u8) {}",
            "let (a, b, c, d) = (next()?, next()?, next()?, next()?);",
            "Self { at: (one, two, three, four) }",
            "fn of<A, B>(read: fn(A, B, C, D) -> E, all: Map<A, B>, and: C, more: D) {}",
            "call(&(a.b, A, B, C));",
        ] {
            assert_eq!(product(fine), 0, "{fine}");
        }
    }

    #[test]
    fn a_folders_module_lies_in_it() {
        let of = |path: &str| Source { path: path.to_owned(), text: String::new() };
        let sources = [
            of("app/a/src/lib.rs"),
            of("app/a/src/step.rs"),
            of("app/a/src/step/tests.rs"),
            of("app/a/src/run/mod.rs"),
            of("app/a/src/run/later.rs"),
        ];
        let wanted = "app/a/src/step.rs: move it into its folder, as app/a/src/step/mod.rs";
        assert_eq!(check(&sources), [wanted]);
    }
}
