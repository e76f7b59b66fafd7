//! What a measurement is asked.

use serde::Deserialize;
use std::path::PathBuf;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Request {
    /// A fresh database of the superuser, for this measurement alone.
    pub(crate) url: String,
    /// The length of the measured part; preparing and checking come on top.
    pub(crate) seconds: u64,
    /// Where the result goes.
    pub(crate) out: PathBuf,
    /// A folder on the disk that the database is on.
    pub(crate) disk: PathBuf,
}
