//! `famulus plugin export`: the files of a plugin, as a tar.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use crate::client::Client;
use crate::error::Error;
use crate::output::Output;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ExportArgs {
    name: String,
    /// Where it is written; else into NAME.tar. A file that is there already is not replaced
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

pub(crate) async fn run(
    args: ExportArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    let ExportArgs { name, to } = args;
    // Asked first: a name that is no plugin's makes no file.
    let mut answer = client.download(&["v1", "plugins", &name, "export"]).await?;
    let to = to.unwrap_or_else(|| format!("{name}.tar").into());
    let failed = |source| Error::WriteFile { path: to.clone(), source };
    let mut file = OpenOptions::new().write(true).create_new(true).open(&to).map_err(failed)?;
    let written = async {
        while let Some(piece) = client.piece(&mut answer).await? {
            file.write_all(piece.as_ref()).map_err(failed)?;
        }
        Ok(())
    };
    if let Err(error) = written.await {
        // Half a tar is none.
        fs::remove_file(&to).map_err(failed)?;
        return Err(error);
    }
    output.print(&format!("the files of {name} are in {}", to.display()))
}
