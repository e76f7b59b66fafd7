//! What one viewer holds of one turn is what the transcript holds: nothing missing, nothing twice.

use super::tables;
use crate::support::viewer::Viewer;
use anyhow::{Result, ensure};
use sqlx::PgPool;
use uuid::Uuid;

/// Fails unless a viewer that saw the end of a turn holds all of it.
pub(crate) async fn check(admin: &PgPool, viewer: &Viewer, turn: Uuid) -> Result<()> {
    let messages = tables::messages(admin, Some(turn)).await?.remove(&turn).unwrap_or_default();
    let (seen, said) = (viewer.text(turn), tables::said(&messages));
    ensure!(
        seen == said,
        "of turn {turn} the viewer holds\n  {seen}\nand the transcript\n  {said}"
    );
    let (ending, reply) = (viewer.ending(turn), reply(admin, turn).await?);
    ensure!(
        ending == Some(&reply),
        "turn {turn} was said to end with\n  {ending:?}\nand the transcript has\n  {reply}\nin\n  {messages:?}"
    );
    Ok(())
}

/// What the transcript has a turn end with.
pub(crate) async fn reply(admin: &PgPool, turn: Uuid) -> Result<String> {
    let messages = tables::messages(admin, Some(turn)).await?.remove(&turn).unwrap_or_default();
    Ok(tables::reply(&messages))
}
