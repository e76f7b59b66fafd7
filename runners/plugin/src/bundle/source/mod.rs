//! Where a plugin's files come from: each kind of source is a file here.

mod address;
mod credentials;
mod git;
mod git_run;
mod inline;
pub(crate) mod kept;

use std::fs;
use std::path::Path;

use famulus_protocol::revision::{BuildOrder, BuildSource};
use famulus_runner_harness::App;

use super::Failure;
use crate::settings::BundleSettings;
use famulus_bundle::archive;

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
            let file = settings.work.join("kept.tar");
            kept::fetch(revision, app, &file).await?;
            archive::unpack(&file, tree).map_err(|error| Failure::build(error.to_string()))?;
            fs::remove_file(file).map_err(Failure::disk("the bundle"))?;
            Ok(None)
        }
    }
}
