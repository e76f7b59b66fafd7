//! What a tree is made of: its files, and the packages of others that it names.
//!
//! A script names them in a block `# /// script`, a folder in a `package.json`. What an init script fetches
//! besides is known to nobody before it runs.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use famulus_protocol::revision::Contents;
use serde_json::Value;

use crate::tree::Tree;

/// The line with which a script begins to say what it needs.
pub const BLOCK: &str = "# /// script";
const END: &str = "# ///";

const NPM: &str = "package.json";
/// Where npm puts what it fetched, whose own needs came with it.
const FETCHED: &str = "node_modules";

/// Packages that are named, and the letters of each.
const MOST: usize = 64;
const LETTERS: usize = 100;

/// `scripts` are the entrypoints, relative to the tree.
pub(crate) fn of(tree: &Tree, scripts: &[String]) -> io::Result<Contents> {
    let mut contents = Contents::default();
    let mut packages = BTreeSet::new();
    let mut folders = vec![tree.root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // Links lead to what is counted where it lies, or out of the tree.
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file() {
                contents.files += 1;
                contents.bytes += metadata.len();
                if entry.file_name() == NPM
                    && let Ok(path) = entry.path().strip_prefix(tree.root())
                    && !path.iter().any(|part| part == FETCHED)
                    && let Ok(text) = tree.read(&path.to_string_lossy())
                {
                    packages.extend(of_npm(&text));
                }
            }
        }
    }
    for script in scripts {
        // One that is no text names none; one that is not there yet is made by the init script.
        packages.extend(tree.read(script).iter().flat_map(|text| of_script(text)));
    }
    let more = packages.len().saturating_sub(MOST);
    contents.packages = packages.into_iter().take(MOST).collect();
    if more > 0 {
        contents.packages.push(format!("and {more} more"));
    }
    Ok(contents)
}

/// One that is no JSON names none.
fn of_npm(text: &str) -> Vec<String> {
    let manifest: Value = serde_json::from_str(text).unwrap_or_default();
    let all = manifest["dependencies"].as_object().into_iter().flatten();
    all.map(|(name, version)| short(&format!("{name}@{}", version.as_str().unwrap_or("*"))))
        .collect()
}

/// The `dependencies` of its block, which is TOML behind `#`.
fn of_script(text: &str) -> Vec<String> {
    let block = text.lines().skip_while(|line| line.trim_end() != BLOCK).skip(1);
    let block = block.take_while(|line| line.starts_with('#') && line.trim_end() != END);
    let lines: Vec<&str> = block.map(|line| line[1..].trim()).collect();
    let is_key = |line: &str| {
        let rest = line.strip_prefix("dependencies").map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with('='))
    };
    let Some(begin) = lines.iter().position(|line| is_key(line)) else { return Vec::new() };
    let list = lines[begin..].join("\n");
    list.split_once('[').map(|(_, list)| quoted(list)).unwrap_or_default()
}

/// The texts of a TOML list, up to its end.
fn quoted(list: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = list;
    while let Some(at) = rest.find(['"', '\'', '#', ']']) {
        let (mark, behind) = (rest.as_bytes()[at], &rest[at + 1..]);
        let end = match mark {
            b']' => break,
            b'#' => behind.find('\n'),
            quote => behind.find(char::from(quote)),
        };
        let Some(end) = end else { break };
        if mark != b'#' {
            found.push(short(&behind[..end]));
        }
        rest = &behind[end + 1..];
    }
    found
}

/// A name with its version, and nothing by which it could be taken for other words of a question.
fn short(name: &str) -> String {
    let name = name.split(';').next().unwrap_or_default();
    let seen = name.chars().filter(|letter| !letter.is_whitespace());
    seen.map(|letter| if letter.is_ascii_graphic() { letter } else { '?' }).take(LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_script_says_what_it_needs() {
        let check = |script: &str, expected: &[&str]| assert_eq!(of_script(script), expected);
        check("print(1)", &[]);
        check("# /// script\n# dependencies = []\n# ///\n", &[]);
        check("# /// script\n# dependencies = [\"a>=1\", 'b']\n# ///\n", &["a>=1", "b"]);
        check(
            "#!/usr/bin/env -S uv run\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n\
             #   \"rich[all]<9\", # for ']'\n#   \"x ; python_version < '3.9'\",\n# ]\n# [tool.uv]\n\
             # other = [\"no\"]\n# ///\n",
            &["rich[all]<9", "x"],
        );
        check("# /// script\n# dependencies-of-mine = [\"no\"]\n# ///\n", &[]);
        check("# /// script\n# dependencies = [\"open", &[]);
        check(
            "# /// script\n# dependencies = [\"a\u{202e}b; network: none\", 'c, no: d']\n# ///\n",
            &["a?b", "c,no:d"],
        );
        check("dependencies = [\"a\"]", &[]);
    }

    #[test]
    fn npm_is_told_what_is_needed_too() {
        let manifest =
            r#"{"dependencies": {"left-pad": "^1.3", "@a/b": {}}, "devDependencies": {"c": "1"}}"#;
        assert_eq!(of_npm(manifest), ["left-pad@^1.3", "@a/b@*"]);
        assert!(of_npm("no JSON").is_empty() && of_npm("[1]").is_empty());
    }

    #[test]
    fn all_files_of_the_tree_count_and_links_and_what_fetched_packages_need_do_not() {
        const SCRIPT: &str = "# /// script\n# dependencies = [\"a\"]\n# ///\n";
        const NEEDS: &str = r#"{"dependencies": {"p": "1"}}"#;
        const FETCHES: &str = r#"{"dependencies": {"q": "1"}}"#;
        let base = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = base.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("manifest.json", "{}");
        write("t/run.py", SCRIPT);
        write("t/package.json", NEEDS);
        write("t/node_modules/p/package.json", FETCHES);
        symlink("/etc/passwd", base.path().join("t/link")).unwrap();
        let tree = Tree::open(base.path()).unwrap();
        let scripts = ["t/run.py".to_owned(), "t/not-there".to_owned()];
        let contents = of(&tree, &scripts).unwrap();
        assert_eq!(
            (contents.files, contents.bytes),
            (4, (2 + SCRIPT.len() + NEEDS.len() + FETCHES.len()) as u64)
        );
        assert_eq!(contents.packages, ["a", "p@1"]);
        let many: Vec<String> = (0..=MOST).map(|n| format!("\"n{n:0>3}\"")).collect();
        let many = many.join(", ");
        write("t/run.py", &format!("# /// script\n# dependencies = [{many}]\n# ///\n"));
        let contents = of(&tree, &scripts[..1]).unwrap();
        assert_eq!(contents.packages.len(), MOST + 1);
        assert_eq!(contents.packages[MOST], "and 2 more");
    }
}
