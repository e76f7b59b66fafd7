//! Work that blocks a thread, away from those that must not be.

use crate::error::BackupError;

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| BackupError::Thread)?
}
