//! A bundle that the app keeps.

use std::path::Path;

use famulus_protocol::paths;
use famulus_protocol::revision::{BUNDLE_BYTES, digest};
use famulus_runner_harness::{App, AppError};

use crate::bundle::Failure;
use famulus_bundle::archive;

/// Fetches it into a file, and trusts nothing but its digest.
pub(crate) async fn fetch(revision: &str, app: &App, file: &Path) -> Result<(), Failure> {
    let hex = digest(revision).map_err(|problem| Failure::no_revision(problem.to_string()))?;
    match app.fetch(&paths::bundle(hex), file, BUNDLE_BYTES).await {
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
    let found = archive::digest(file).map_err(Failure::disk("the bundle"))?;
    if found != revision {
        return Err(Failure::build(format!(
            "what the app sent as {revision} is {found}; see whether its database is damaged"
        )));
    }
    Ok(())
}
