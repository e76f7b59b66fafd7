//! A bundle that the app keeps.

use std::path::Path;

use famulus_protocol::paths;
use famulus_protocol::revision::{BUNDLE_BYTES, digest};
use famulus_runner_harness::{App, AppError};

use crate::archive;
use crate::bundle::Failure;
use crate::settings::BundleSettings;

/// Fetches it, and trusts nothing but its digest.
pub(super) async fn fetch(
    revision: &str,
    settings: &BundleSettings,
    app: &App,
    tree: &Path,
) -> Result<(), Failure> {
    let hex = digest(revision).map_err(|problem| Failure::no_revision(problem.to_string()))?;
    let file = settings.work.join("kept.tar");
    match app.fetch(&paths::bundle(hex), &file, BUNDLE_BYTES).await {
        Ok(()) => {}
        Err(AppError::Refused { status: 404, detail }) => {
            return Err(Failure::no_revision(format!(
                "the app keeps no revision {revision} of this plugin ({detail}); pin one that it \
                 keeps, or none"
            )));
        }
        Err(error) => {
            return Err(Failure::build(format!(
                "the bundle {revision} cannot be fetched: {error}"
            )));
        }
    }
    let found = archive::digest(&file).map_err(Failure::disk("the bundle"))?;
    if found != revision {
        return Err(Failure::build(format!(
            "what the app sent as {revision} is {found}; see whether its database is damaged"
        )));
    }
    archive::unpack(&file, tree).map_err(|error| Failure::build(error.to_string()))?;
    std::fs::remove_file(file).map_err(Failure::disk("the bundle"))
}
