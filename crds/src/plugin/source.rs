//! Where a plugin comes from.

use kube::KubeSchema;
use kube::core::Rule;
use serde::{Deserialize, Serialize};

/// The most that the files of an inline source hold, in bytes: 64 KiB. A Plugin is one object of
/// the cluster, and those are to stay small.
pub const MOST_INLINE_BYTES: usize = 65_536;

/// Exactly one of its fields is there. A rule holds that; here it is two options, so that a source
/// of a later version, which has neither, can still be read.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = one_of_them())]
pub struct Source {
    /// Files that are written here. For plugins of a few lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineSource>,

    /// A git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
}

/// A plugin that is written into its resource.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct InlineSource {
    /// The plugin's files, among them `manifest.json`. Together they hold at most 65536 bytes. A
    /// file that begins with `#!` is executable.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["path".to_owned()]),
        validation = with_a_manifest(),
        validation = small_in_all()
    )]
    pub files: Vec<InlineFile>,
}

/// One file of an inline source.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct InlineFile {
    /// Its path below the plugin's folder, as in `my_tool/run.sh`.
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(validation = plain_path())]
    pub path: String,

    /// What it holds, as text.
    #[schemars(length(max = 65_536))]
    pub content: String,
}

/// A plugin in a git repository. It has no submodules, and hooks do not run.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct GitSource {
    /// The address of the repository: https, http, git or ssh, also in the short form `git@example.org:weather.git`.
    /// Without a password, and only for ssh with a user.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = known_scheme(), validation = plain_address())]
    pub url: String,

    /// A branch, a tag or a full commit id. It is looked up once for each change of the spec; a
    /// branch that moves on later is not followed. Left out, it is the repository's main branch.
    #[serde(rename = "ref", default = "main_branch")]
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(validation = plain_ref())]
    pub reference: String,
}

/// What a repository itself calls its main branch.
fn main_branch() -> String {
    "HEAD".to_owned()
}

fn one_of_them() -> Rule {
    Rule::new("has(self.inline) != has(self.git)").message(
        "spec.source needs exactly one of inline and git; keep the one that holds the plugin, and \
         leave out the other",
    )
}

fn with_a_manifest() -> Rule {
    Rule::new("self.exists(file, file.path == 'manifest.json')").message(
        "spec.source.inline.files has no manifest.json, and so is no plugin; add the plugin's \
         manifest under that path",
    )
}

fn small_in_all() -> Rule {
    let rule = format!("self.map(file, size(bytes(file.content))).sum() <= {MOST_INLINE_BYTES}");
    Rule::new(rule).message(
        "spec.source.inline.files holds more than 65536 bytes in all; make it smaller, or put the \
         plugin into a git repository and name that in spec.source.git",
    )
}

/// No empty part, none of dots alone, and nothing that a shell or a file system reads in its own
/// way.
fn plain_path() -> Rule {
    const PART: &str = r"\.?[A-Za-z0-9_-][A-Za-z0-9._-]*";
    Rule::new(format!("self.matches(r'^{PART}(/{PART})*$')")).message(
        "spec.source.inline.files has a path that is not plain; use letters, digits, dots, hyphens \
         and underscores, with single slashes between, as in my_tool/run.sh",
    )
}

fn known_scheme() -> Rule {
    Rule::new("self.matches('^((https|http|git|ssh)://|[A-Za-z0-9_][A-Za-z0-9._-]*@[^/]*:)')").message(
        "spec.source.git.url has a scheme that is not fetched; write an address that begins with \
         https://, http://, git:// or ssh://, or one like git@example.org:weather.git",
    )
}

/// A host that begins like a host, perhaps a port, and a path without blanks. `@` cannot stand
/// before the path: who writes a password here shows it to everybody who reads Plugins.
fn plain_address() -> Rule {
    const NAME: &str = "[A-Za-z0-9][A-Za-z0-9.-]*";
    const USER: &str = "[A-Za-z0-9_][A-Za-z0-9._-]*@";
    let host = format!(r"({NAME}|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?");
    // Which schemes there are is the other rule's.
    let url = format!("(ssh://({USER})?|[^/@:]*://){host}/[!-~]+");
    let short = format!("{USER}{NAME}:[!-,.-~][!-~]*");
    Rule::new(format!("self.matches(r'^({url}|{short})$')")).message(
        "spec.source.git.url is not a plain address; write it like \
         https://example.org/weather.git, with a path, without password and blanks, and with a user \
         only where it is of ssh",
    )
}

/// What git itself refuses in a name, and what it could take for an option, a range or an
/// expression.
fn plain_ref() -> Rule {
    Rule::new(
        "self.matches('^[A-Za-z0-9_][A-Za-z0-9._/+-]*$') \
         && ['..', '//'].all(part, !self.contains(part)) \
         && ['.', '/'].all(part, !self.endsWith(part))",
    )
    .message(
        "spec.source.git.ref is not the name of a branch, a tag or a commit; write it like main, \
         v1.2 or a full commit id",
    )
}
