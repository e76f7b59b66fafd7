//! The crash points that the product passes are those by which the harness kills.

use std::collections::BTreeSet;

use super::Complaint;
use super::files::Source;
use super::points::is_shipped;

/// Where the points are listed.
const POINTS: &str = "app/core/src/crash.rs";

pub(super) fn check(sources: &[Source]) -> Vec<Complaint> {
    let shipped: Vec<&str> =
        sources.iter().filter(|source| is_shipped(source)).map(|source| &*source.text).collect();
    let list = sources.iter().find(|source| source.path == POINTS);
    unlisted(&shipped, list.map_or("", |source| &source.text))
}

/// Points that only one of the two has: the product, or the list by which the harness kills.
fn unlisted(shipped: &[&str], list: &str) -> Vec<Complaint> {
    let quoted = |text: &&str| text.split('"').next().map(str::to_owned);
    let called = shipped.iter().flat_map(|text| text.split("crash::before(\"").skip(1));
    let called: BTreeSet<String> = called.filter_map(|text| quoted(&text)).collect();
    let list = list.split_once("pub const POINTS").map_or("", |(_, behind)| behind);
    let list = list.split_once("];").map_or("", |(list, _)| list);
    let listed: BTreeSet<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let of_one = called.symmetric_difference(&listed);
    of_one
        .map(|point| {
            format!("the crash point {point:?} is not both in the product and in {POINTS}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_that_is_not_listed_or_never_passed_is_a_complaint() {
        let list = "pub const POINTS: &[&str] = &[\n    \"a\",\n    \"b\",\n];\n\"d\"";
        let shipped = ["crash::before(\"a\"); crash::after(\"a\");", "x; crash::before(\"c\");"];
        let found = unlisted(&shipped, list);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("\"b\"") && found[1].contains("\"c\""), "{found:?}");
        assert_eq!(unlisted(&shipped[..1], &list.replace("\"b\",", "")), Vec::<Complaint>::new());
    }
}
