//! Where a plugin's files come from: each kind of source is a file here.

mod address;
mod git;
mod git_run;
mod inline;
mod kept;

use std::path::Path;

use famulus_protocol::revision::{BuildOrder, BuildSource};
use famulus_runner_harness::App;

use super::Failure;
use crate::settings::BundleSettings;

/// Puts the files of the order into an empty folder. The commit, where there is one.
pub(super) async fn obtain(
    order: &BuildOrder,
    settings: &BundleSettings,
    app: &App,
    tree: &Path,
) -> Result<Option<String>, Failure> {
    match &order.source {
        BuildSource::Inline { files } => inline::write(files, tree).map(|()| None),
        BuildSource::Git { url, r#ref } => {
            git::fetch(url, r#ref, &order.allow_hosts, settings, tree).await.map(Some)
        }
        BuildSource::Revision(revision) => {
            kept::fetch(revision, settings, app, tree).await.map(|()| None)
        }
    }
}
