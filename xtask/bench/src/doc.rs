//! The table in `docs/PERFORMANCE.md` and the list of where figures come from, between their markers.
//!
//! A row keeps what an earlier benchmark measured until it is measured again; a quick run does not
//! replace the figures of a full one.

use std::fs;

use anyhow::{Context, Result};
use xtask_shell::workspace::root;

use super::judge::Row;
use super::machine::PEER;
use super::profile::Parts;

const FILE: &str = "docs/PERFORMANCE.md";
const TABLE: Markers = Markers { name: "figures" };
const WHERE: Markers = Markers { name: "where" };
const MACHINE: Markers = Markers { name: "machine" };

const HEAD: [&str; 9] =
    ["", "what", "figure", "× floor", "× peer", "wanted", "verdict", "measured", "again by"];

/// How a cell says that its figure comes from a quick run.
const QUICK: &str = "quick";

/// The table as Markdown, without what was not measured.
pub(super) fn render(rows: &[Row]) -> String {
    lines(rows.iter().filter_map(line))
}

/// Puts the rows into the file, where they come from, and the machine that they were measured on.
pub(super) fn write(rows: &[Row], parts: &[Parts], machine: &[String], quick: bool) -> Result<()> {
    let path = root().join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    let text = merge_parts(&merge(&text, rows)?, parts)?;
    // A quick run on a busy machine says nothing about the one that the figures are from.
    let text = if quick { text } else { merge_machine(&text, machine)? };
    fs::write(&path, text).with_context(|| format!("cannot write {FILE}"))
}

fn merge(text: &str, rows: &[Row]) -> Result<String> {
    let old = TABLE.inside(text)?;
    let kept = |row: &Row| {
        let begins = format!("| {} | {} |", row.id, row.what);
        old.lines().find(|line| line.starts_with(&begins)).map(str::to_owned)
    };
    let merged = rows.iter().map(|row| match (line(row), kept(row)) {
        (Some(new), Some(old)) if is_quick(&new) && !is_quick(&old) && !is_empty(&old) => old,
        (Some(new), _) => new,
        (None, Some(old)) => old,
        (None, None) => format!("| {} | {} | not measured | | | | | | |", row.id, row.what),
    });
    TABLE.replace(text, &lines(merged))
}

/// The peer's figures stay when it is not measured again, and so does what it was.
fn merge_machine(text: &str, machine: &[String]) -> Result<String> {
    let mut facts: Vec<String> = machine.iter().map(|fact| format!("- {fact}")).collect();
    let of_peer = |line: &&str| line.trim_start_matches("- ").starts_with(PEER);
    if !facts.iter().any(|fact| of_peer(&fact.as_str())) {
        facts.extend(MACHINE.inside(text)?.lines().find(of_peer).map(str::to_owned));
    }
    MACHINE.replace(text, &facts.join("\n"))
}

fn merge_parts(text: &str, parts: &[Parts]) -> Result<String> {
    let old = WHERE.inside(text)?;
    let merged = parts.iter().filter_map(|Parts { begins, rest }| {
        let new = rest.as_ref().map(|rest| format!("{begins}{rest}"));
        let old = old.lines().find(|line| line.starts_with(begins)).map(str::to_owned);
        match (new, old) {
            (Some(new), Some(old)) if is_quick(&new) && !is_quick(&old) => Some(old),
            (Some(new), _) => Some(new),
            (None, old) => old,
        }
    });
    WHERE.replace(text, &merged.collect::<Vec<_>>().join("\n"))
}

fn is_quick(line: &str) -> bool {
    [" |", ")"].iter().any(|end| line.contains(&format!(", {QUICK}{end}")))
}

fn is_empty(line: &str) -> bool {
    line.contains("| not measured |")
}

fn line(row: &Row) -> Option<String> {
    let cells = row.cells.as_ref()?;
    Some(format!("| {} | {} | {} |", row.id, row.what, cells.join(" | ")))
}

fn lines(rows: impl Iterator<Item = String>) -> String {
    let head = format!("| {} |", HEAD.join(" | "));
    let rule = format!("|{}", "---|".repeat(HEAD.len()));
    [head, rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// A pair of comments in the file.
struct Markers {
    name: &'static str,
}

impl Markers {
    fn place(&self, text: &str) -> Result<(usize, usize)> {
        let (begin, end) =
            (format!("<!-- {} -->\n", self.name), format!("\n<!-- /{} -->", self.name));
        let from = text.find(&begin).map(|place| place + begin.len());
        let place = from.and_then(|from| Some((from, from - 1 + text[from - 1..].find(&end)?)));
        place.with_context(|| format!("{FILE} lacks the comments {begin}and{end}"))
    }

    fn inside<'a>(&self, text: &'a str) -> Result<&'a str> {
        let (from, to) = self.place(text)?;
        Ok(text.get(from..to).unwrap_or_default())
    }

    fn replace(&self, text: &str, inside: &str) -> Result<String> {
        let (from, to) = self.place(text)?;
        let rest = &text[to.max(from - 1)..];
        Ok(format!("{}{inside}{rest}", &text[..from]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &'static str, figure: Option<(&str, &str)>) -> Row {
        let cells = figure.map(|(value, when)| {
            let rest = ["–", "–", "–", "–"].map(str::to_owned);
            let [a, b, c, d] = rest;
            [value.to_owned(), a, b, c, d, when.to_owned(), "`again`".to_owned()]
        });
        Row { id: "Q1", what, cells, needed_missed: false }
    }

    fn figures(text: &str) -> Vec<String> {
        let rows = TABLE.inside(text).unwrap().lines().skip(2);
        rows.map(|line| line.split('|').nth(3).unwrap_or_default().trim().to_owned()).collect()
    }

    #[test]
    fn parts_keep_their_line_until_they_are_measured_as_well() {
        let measured = |rest: Option<&str>| {
            [Parts { begins: "- F3, a (".to_owned(), rest: rest.map(str::to_owned) }]
        };
        let empty = "<!-- where -->\n<!-- /where -->\n";
        let quick = merge_parts(empty, &measured(Some("today, quick): `x` 1 KiB"))).unwrap();
        assert_eq!(WHERE.inside(&quick).unwrap(), "- F3, a (today, quick): `x` 1 KiB");
        let full = merge_parts(&quick, &measured(Some("today): `x` 2 KiB"))).unwrap();
        for later in [None, Some("today, quick): `x` 3 KiB")] {
            let kept = merge_parts(&full, &measured(later)).unwrap();
            assert_eq!(WHERE.inside(&kept).unwrap(), "- F3, a (today): `x` 2 KiB");
        }
    }

    #[test]
    fn the_peer_keeps_its_line_until_it_is_measured_as_well() {
        let text = "<!-- machine -->\n- 2 cores\n- peer: one\n<!-- /machine -->";
        let facts = |facts: &[&str]| facts.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>();
        let kept = merge_machine(text, &facts(&["4 cores"])).unwrap();
        assert_eq!(MACHINE.inside(&kept).unwrap(), "- 4 cores\n- peer: one");
        let new = merge_machine(&kept, &facts(&["4 cores", "peer: another"])).unwrap();
        assert_eq!(MACHINE.inside(&new).unwrap(), "- 4 cores\n- peer: another");
    }

    #[test]
    fn a_row_keeps_its_figure_until_it_is_measured_as_well() {
        let empty = "before\n<!-- figures -->\n<!-- /figures -->\nafter\n";
        let first = merge(empty, &[row("a", Some(("1 ms", "today, 5 runs"))), row("b", None)]);
        let first = first.unwrap();
        assert_eq!(figures(&first), ["1 ms", "not measured"]);
        assert!(first.starts_with("before\n<!-- figures -->\n|"), "{first}");
        assert!(first.ends_with("|\n<!-- /figures -->\nafter\n"), "{first}");

        let quick = ("2 ms", "today, quick");
        let second = merge(&first, &[row("a", Some(quick)), row("b", Some(quick))]).unwrap();
        assert_eq!(figures(&second), ["1 ms", "2 ms"]);

        let full = ("3 ms", "today, 5 runs");
        let third = merge(&second, &[row("a", None), row("b", Some(full))]).unwrap();
        assert_eq!(figures(&third), ["1 ms", "3 ms"]);
        assert!(merge("no markers", &[]).is_err());
    }
}
