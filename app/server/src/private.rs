//! The private Postgres, as the configuration wants it.

use crate::config::Database;
use famulus_lifecycle::Tasks;
use famulus_local::{
    cache,
    postgres::{PrivatePostgres, Settings},
};
use std::path::{Path, PathBuf};

/// Where unpacked installations of Postgres may be, besides where a machine has its own.
pub(crate) fn tree_dirs() -> Vec<PathBuf> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(|bin| bin.join("../share/famulus")));
    let cached = cache::folder(|name| std::env::var_os(name));
    beside.into_iter().chain([cached]).collect()
}

/// Starts it on a data directory.
pub(crate) async fn start(
    database: &Database,
    data_dir: &Path,
    tasks: &Tasks,
) -> anyhow::Result<PrivatePostgres> {
    let sessions = database.durable_sessions + database.relaxed_sessions;
    let settings = Settings {
        bin_dir: database.bin_dir.clone(),
        tree_dirs: tree_dirs(),
        shared_buffers_mb: database.shared_buffers_mb,
        // Ours, the writer, the ear, three for the superuser, and some for whoever looks.
        max_connections: (sessions + 12).max(40),
        ..Settings::new(std::path::absolute(data_dir)?)
    };
    Ok(PrivatePostgres::start(settings, tasks).await?)
}
