//! A repository: one commit of it, without its history.
//!
//! Nothing is checked out. The commit's files are read from git's objects, so that neither
//! attributes nor filters, neither line endings nor links have any say. What a repository holds of
//! other repositories is left out, and a large file that is kept elsewhere is its pointer.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;

use famulus_protocol::revision::{BUNDLE_BYTES, BUNDLE_FILES};

use super::address::Repository;
use super::git_run::{FILE_BYTES, Files, Git, GitError};
use super::inline::put;
use crate::bundle::Failure;
use crate::settings::BundleSettings;
use famulus_bundle::archive::{ArchiveError, Names, link_stays};

/// Deadlines in seconds: for a question, for what is sent, for work without a network.
const ASK: u64 = 30;
const FETCH: u64 = 180;
const READ: u64 = 60;

/// Redirects that are followed.
const HOPS: u32 = 5;

/// Where the fetched commit is noted.
const FETCHED: &str = "refs/famulus/source";

/// Bytes of the list of a commit's files.
const LIST_BYTES: u64 = 16 * 1024 * 1024;

/// Puts the files of a commit into the tree, and says which commit it is.
pub(super) async fn fetch(
    url: &str,
    reference: &str,
    allowed: &[String],
    settings: &BundleSettings,
    tree: &Path,
) -> Result<String, Failure> {
    check_reference(reference)?;
    let git = open(url, allowed, settings).await?;
    let wanted = if is_commit(reference) {
        reference.to_owned()
    } else {
        look_up(&git, url, reference).await?
    };
    let commit = bring(&git, url, &wanted, reference).await?;
    let entries = list(&git, &commit).await?;
    write(&git, entries, tree).await?;
    fs::remove_dir_all(git.file("")).map_err(Failure::disk("the work folder"))?;
    Ok(commit)
}

/// The repository where it is, behind the redirects of its servers. Each leads to an address that is
/// looked at as the first was.
async fn open(url: &str, allowed: &[String], settings: &BundleSettings) -> Result<Git, Failure> {
    let mut repository = Repository::parse(url)?;
    for _hop in 0..=HOPS {
        let git = Git::new(settings, repository.clone().locate(allowed).await?)?;
        let unusable =
            |said: GitError| Failure::build(format!("git cannot be used: {}", said.words()));
        git.run(ASK, &["init", "--quiet", "--bare", "--template=", "."]).await.map_err(unusable)?;
        match git.redirect(ASK).await {
            None => return Ok(git),
            Some(location) => repository = repository.moved(&location)?,
        }
    }
    Err(Failure::unreachable(format!(
        "{url} sends on more than {HOPS} times; write the address that the repository has now"
    )))
}

/// What git itself refuses in a name, and what it could take for an option or an expression.
fn check_reference(reference: &str) -> Result<(), Failure> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._/+-".contains(&byte);
    let plain = (1..=255).contains(&reference.len())
        && reference.bytes().all(allowed)
        && !reference.starts_with(['-', '.', '/', '+'])
        && !reference.ends_with(['.', '/'])
        && reference.strip_suffix(".lock").is_none()
        && !["..", "//", "/."].iter().any(|part| reference.contains(part));
    if plain {
        return Ok(());
    }
    Err(Failure::no_ref(format!(
        "`{}` is not the name of a branch, a tag or a commit; write it like main, v1.2 or a full \
         commit id",
        reference.escape_debug()
    )))
}

fn is_commit(reference: &str) -> bool {
    [40, 64].contains(&reference.len())
        && reference.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Asks the server for the whole name: a branch counts before a tag.
async fn look_up(git: &Git, url: &str, reference: &str) -> Result<String, Failure> {
    let (branch, tag) = (format!("refs/heads/{reference}"), format!("refs/tags/{reference}"));
    let address = git.url();
    let names = if reference == "HEAD" { vec!["HEAD"] } else { vec![&*branch, &*tag] };
    let mut arguments = vec!["ls-remote", "--quiet", "--", &address];
    arguments.extend(&names);
    let answer = git.run(ASK, &arguments).await.map_err(|said| unreachable(url, &said))?;
    let is_there = |name: &str| {
        answer.lines().filter_map(|line| line.split_once('\t')).any(|(_, n)| n == name)
    };
    let found = names.into_iter().find(|name| is_there(name));
    found.map(str::to_owned).ok_or_else(|| no_reference(url, reference))
}

fn no_reference(url: &str, reference: &str) -> Failure {
    Failure::no_ref(format!(
        "{url} has no branch, tag or commit `{reference}`; write one that it has into \
         spec.source.git.ref"
    ))
}

/// What ssh says of a host that is not known, or shows another key.
const OTHER_HOST: [&str; 3] = [
    "Host key verification failed",
    "host key is known for",
    "REMOTE HOST IDENTIFICATION HAS CHANGED",
];

/// What git and ssh say where a host wants to know who asks.
const ASKED_WHO: [&str; 4] =
    ["could not read Username", "Authentication failed", "Permission denied (", "error: 403"];

fn unreachable(url: &str, said: &GitError) -> Failure {
    let words = said.words();
    if said.says(&OTHER_HOST) {
        return Failure::unreachable(format!(
            "{url} could not be fetched; its host is not the one that `known_hosts` of the credentials for \
             repositories knows, or is not known there: compare the key that it shows with the one that it \
             publishes, and add that"
        ));
    }
    let remedy = if said.says(&["ssh: not found", "cannot run ssh"]) {
        "there is no ssh here; install `openssh-client`, in a cluster choose the full image \
         (`spec.runner.flavour: Full`), or give the address over https"
    } else if said.says(&ASKED_WHO) {
        "it is private or is not there; see the address, and that the credentials for repositories \
         (`plugins.repositories`) have a right to read it"
    } else {
        "see whether the address is right and the repository public"
    };
    Failure::unreachable(format!("{url} could not be fetched; {remedy}: {words}"))
}

async fn bring(git: &Git, url: &str, wanted: &str, reference: &str) -> Result<String, Failure> {
    let (address, mapping) = (git.url(), format!("+{wanted}:{FETCHED}"));
    let arguments = [
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--no-write-fetch-head",
        "--",
        &address,
        &mapping,
    ];
    git.run(FETCH, &arguments).await.map_err(|said| {
        let unknown = ["couldn't find remote ref", "not our ref", "unadvertised object"];
        if said.says(&unknown) { no_reference(url, reference) } else { unreachable(url, &said) }
    })?;
    let commit = format!("{FETCHED}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &commit];
    let found = git.run(READ, &arguments).await.map_err(|_said| {
        Failure::no_ref(format!("`{reference}` of {url} is no commit; name one that is"))
    })?;
    // A server that answered with another commit than was asked for is not believed.
    let found = found.trim().to_owned();
    if is_commit(wanted) && found != wanted {
        return Err(no_reference(url, reference));
    }
    Ok(found)
}

/// A file or a link of the commit.
struct Entry {
    path: String,
    object: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Program,
    Link,
}

async fn list(git: &Git, commit: &str) -> Result<Vec<Entry>, Failure> {
    let (nothing, file) = (Path::new("/dev/null"), git.file("list"));
    let arguments = ["ls-tree", "-r", "-z", "-l", "--full-tree", commit];
    let files = Files { input: nothing, output: &file, most: LIST_BYTES };
    git.run_files(READ, &files, &arguments).await.map_err(|said| {
        let too_many = || Failure::build(ArchiveError::Files.to_string());
        if said.is_too_much() { too_many() } else { unreadable(said) }
    })?;
    entries(&fs::read(file).map_err(Failure::disk("the work folder"))?)
}

fn unreadable(said: GitError) -> Failure {
    Failure::build(format!("the commit cannot be read: {}", said.words()))
}

/// Reads `MODE TYPE OBJECT SIZE⇥PATH`, each ended by a zero.
fn entries(list: &[u8]) -> Result<Vec<Entry>, Failure> {
    let refuse = |error: ArchiveError| Failure::build(error.to_string());
    let mut names = Names::default();
    let (mut entries, mut bytes) = (Vec::new(), 0_u64);
    for line in list.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let line = std::str::from_utf8(line).map_err(|_binary| {
            let path = String::from_utf8_lossy(line).escape_debug().to_string();
            refuse(ArchiveError::Path { path, what: "is no text; rename it" })
        })?;
        let (fields, path) = line.split_once('\t').unwrap_or_default();
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let [mode, kind, object, size] = fields[..] else {
            return Err(Failure::build("git lists the commit in an unknown way"));
        };
        let kind = match (mode, kind) {
            ("120000", "blob") => Kind::Link,
            ("100755", "blob") => Kind::Program,
            (_, "blob") => Kind::File,
            // Another repository: it is not fetched.
            _ => continue,
        };
        names.take(path).map_err(refuse)?;
        bytes = bytes.saturating_add(size.parse().unwrap_or(u64::MAX));
        if bytes > BUNDLE_BYTES {
            return Err(refuse(ArchiveError::Bytes));
        }
        if entries.len() == BUNDLE_FILES {
            return Err(refuse(ArchiveError::Files));
        }
        entries.push(Entry { path: path.to_owned(), object: object.to_owned(), kind });
    }
    Ok(entries)
}

/// Writes the files of the tree from git's objects. Links come last, so that no file is written
/// through one.
async fn write(git: &Git, entries: Vec<Entry>, tree: &Path) -> Result<(), Failure> {
    let disk = || Failure::disk("the plugin's tree");
    let (wanted, objects) = (git.file("wanted"), git.file("content"));
    let mut lines = String::new();
    for entry in &entries {
        lines.push_str(&entry.object);
        lines.push('\n');
    }
    File::create(&wanted).and_then(|mut file| file.write_all(lines.as_bytes())).map_err(disk())?;
    let arguments = ["cat-file", "--batch"];
    let files = Files { input: &wanted, output: &objects, most: FILE_BYTES };
    git.run_files(READ, &files, &arguments).await.map_err(unreadable)?;

    let mut from = BufReader::new(File::open(&objects).map_err(disk())?);
    let mut links = Vec::new();
    for Entry { path, object, kind } in entries {
        let content = object_of(&mut from, &object).map_err(disk())?;
        let place = tree.join(&path);
        match kind {
            Kind::File => put(&place, &content, 0o644)?,
            Kind::Program => put(&place, &content, 0o755)?,
            Kind::Link => links.push((path, content)),
        }
    }
    for (path, target) in links {
        let target = String::from_utf8_lossy(&target).into_owned();
        if !link_stays(&path, &target) {
            let target = target.escape_debug().to_string();
            return Err(Failure::build(ArchiveError::Link { path, target }.to_string()));
        }
        let place = tree.join(&path);
        let folder = place.parent().unwrap_or(tree);
        fs::create_dir_all(folder).and_then(|()| symlink(target, &place)).map_err(disk())?;
    }
    Ok(())
}

/// Reads `OBJECT TYPE SIZE⏎`, the content, and a line's end.
fn object_of(from: &mut impl BufRead, expected: &str) -> io::Result<Vec<u8>> {
    let broken = || io::Error::other("git gives the objects in an unknown way");
    let mut head = String::new();
    from.by_ref().take(200).read_line(&mut head)?;
    let fields: Vec<&str> = head.split_ascii_whitespace().collect();
    let [object, "blob", size] = fields[..] else { return Err(broken()) };
    let size: u64 = size.parse().map_err(|_no_number| broken())?;
    if object != expected || size > BUNDLE_BYTES {
        return Err(broken());
    }
    let mut content = vec![0; size as usize];
    from.read_exact(&mut content)?;
    let mut end = [0];
    from.read_exact(&mut end)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_is_looked_up() {
        for name in ["main", "v1.2", "feature/x-1", "HEAD", "a_b+c", &"0a".repeat(20)] {
            assert!(check_reference(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "-x",
            "--upload-pack=x",
            "a..b",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "@{0}",
            "a.lock",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a\n",
            "+a",
            "ä",
        ] {
            assert!(check_reference(name).is_err(), "{name:?}");
        }
        assert!(is_commit(&"0a".repeat(20)) && !is_commit("main") && !is_commit(&"0A".repeat(20)));
    }

    #[test]
    fn a_commit_is_listed_without_other_repositories() {
        let list = b"100644 blob aa      3\ta b\x00100755 blob bb 4\trun\x00\
            120000 blob cc 5\tlink\x00160000 commit dd -\tother\0";
        let entries = entries(list).ok().unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(names, ["a b", "run", "link"]);
        assert!(entries[1].kind == Kind::Program && entries[2].kind == Kind::Link);
    }

    #[test]
    fn a_list_that_leads_out_or_is_too_large_is_refused() {
        for list in [
            &b"100644 blob aa 3\t../a\0"[..],
            b"100644 blob aa 3\t/a\0",
            b"100644 blob aa 3\t.git/hooks/post-checkout\0",
            b"100644 blob aa 3\ta/.GIT/config\0",
            b"100644 blob aa 3\ta\x00100644 blob aa 3\ta/b\0",
            b"100644 blob aa 3\t\xff\0",
            b"100644 blob aa 99999999999\ta\0",
            b"100644 blob aa x\ta\0",
            b"nonsense\0",
        ] {
            assert!(entries(list).is_err(), "{}", String::from_utf8_lossy(list));
        }
    }
}
