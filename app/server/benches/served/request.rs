//! What a measurement is asked.

use serde::Deserialize;
use std::path::PathBuf;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Request {
    /// A fresh database of the superuser, for this measurement alone.
    pub(crate) url: String,
    /// How much is measured: seconds, or a number of what the measurement counts.
    #[serde(alias = "seconds", alias = "count")]
    pub(crate) extent: u64,
    /// Where the result goes.
    pub(crate) out: PathBuf,
    /// The program as it is released.
    pub(crate) famulus: PathBuf,
    /// On the same disk as the data of the server.
    pub(crate) disk: PathBuf,
    /// The programs of the server.
    pub(crate) bin_dir: PathBuf,
}
