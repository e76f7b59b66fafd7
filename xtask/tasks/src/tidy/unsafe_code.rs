//! Where `unsafe` stands, and how often.
//!
//! The lint of the workspace asks for a reason at each place; this is the list of all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::Complaint;
use super::code::words;
use super::files::Source;

/// Each is one system call or one call of the allocator that has no safe wrapper.
const LISTED: [(&str, usize); 6] = [
    ("libs/lifecycle/src/memory.rs", 1),
    ("runners/harness/src/supervisor/descriptors.rs", 1),
    ("runners/harness/src/supervisor/filter.rs", 1),
    ("runners/harness/src/namespaces.rs", 1),
    ("runners/launcher/src/interface.rs", 1),
    ("runners/network/src/tun.rs", 1),
];

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let listed = BTreeMap::from(LISTED);
    let count = |source: &Source| words(&source.text).iter().filter(|w| w.text == "unsafe").count();
    let found: BTreeMap<&str, usize> =
        sources.iter().map(|source| (source.path.as_str(), count(source))).collect();
    let paths: BTreeSet<&str> = listed.keys().chain(found.keys()).copied().collect();
    let mut complaints = Vec::new();
    for path in paths {
        let of = |counts: &BTreeMap<&str, usize>| counts.get(path).copied().unwrap_or_default();
        let (found, listed) = (of(&found), of(&listed));
        if found != listed {
            complaints.push(format!(
                "{path}: {found} times `unsafe`, listed are {listed}; use a safe \
                 wrapper, or argue a change of the list in tidy and of docs/SECURITY.md"
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_that_is_not_listed_is_a_complaint() {
        let source =
            |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let once = "#[expect(unsafe_code)]\nfn a() {\n    unsafe { b() }; // unsafe {}\n}\n";
        let mut sources: Vec<Source> = LISTED.iter().map(|(path, _)| source(path, once)).collect();
        sources.push(source("app/core/src/clean.rs", "fn a() { say(\"unsafe { b() }\") }\n"));
        assert_eq!(check(&sources), Vec::<Complaint>::new());

        let forms = [
            "fn a() { unsafe\n{ b() } }",
            "unsafe fn a() {}",
            "unsafe impl Send for A {}",
            "unsafe extern \"C\" { fn a(); }",
            "#[unsafe(no_mangle)] fn a() {}",
        ];
        for form in forms {
            let complaints = check(&[sources.as_slice(), &[source("new.rs", form)]].concat());
            assert_eq!(complaints.len(), 1, "{form}: {complaints:?}");
            assert!(complaints[0].starts_with("new.rs: 1 times `unsafe`, listed are 0; use a"));
        }

        sources[0].text.push_str("unsafe fn c() {}\n");
        sources[1].text.clear();
        sources.remove(2);
        let complaints = check(&sources);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[0].contains("memory.rs: 2 times `unsafe`, listed are 1"));
        assert!(complaints[1].contains("descriptors.rs: 0 times `unsafe`, listed are 1"));
        assert!(complaints[2].contains("filter.rs: 0 times `unsafe`, listed are 1"));
    }
}
