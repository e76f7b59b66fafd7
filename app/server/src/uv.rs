//! `uv` for the plugins of one machine: found or fetched by `famulus-local`, shown by `famulus-machine`.

use crate::private;
use async_trait::async_trait;
use famulus_errors::chain;
use famulus_local::uv;
use std::path::{Path, PathBuf};

/// What the port of the machine asks for.
#[derive(Debug)]
pub(crate) struct Uv(uv::Uv);

impl Uv {
    /// Nothing is searched or fetched yet.
    pub(crate) fn below(data_dir: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self(uv::Uv::new(data_dir.join("programs"), private::tree_dirs(), path))
    }
}

#[async_trait]
impl famulus_machine::Uv for Uv {
    async fn at_hand(&self) -> Option<PathBuf> {
        self.0.at_hand().await
    }

    async fn obtain(&self) -> Result<PathBuf, String> {
        self.0.obtain().await.map_err(|error| chain(&error))
    }
}
