//! Every file that was acknowledged is there, byte for byte, and what refers to it still does.

use crate::support::world::World;
use anyhow::Result;
use uuid::Uuid;

pub(super) async fn check(world: &World, found: &mut Vec<String>) -> Result<()> {
    let admin = &world.database.admin;
    let files = world.log.files.lock().clone();
    for (file, bytes) in files {
        let state: Option<String> = sqlx::query_scalar("select state from blob where id = $1")
            .bind(file)
            .fetch_optional(admin)
            .await?;
        if state.as_deref() != Some("whole") {
            found.push(format!("file {file}: was acknowledged and is {state:?}"));
        }
        let pieces: Vec<Vec<u8>> =
            sqlx::query_scalar("select data from blob_piece where blob_id = $1 order by number")
                .bind(file)
                .fetch_all(admin)
                .await?;
        let stored = pieces.concat();
        if stored != bytes {
            found.push(format!(
                "file {file}: {} of {} bytes are as sent",
                stored.len(),
                bytes.len()
            ));
        }
        let mut referring: Vec<Uuid> =
            sqlx::query_scalar("select message_id from message_blob where blob_id = $1")
                .bind(file)
                .fetch_all(admin)
                .await?;
        let sent = world.log.sent();
        let with_it = sent.iter().filter(|sent| sent.script.file == Some(file));
        let mut expected: Vec<Uuid> = with_it.map(|sent| sent.ack.message).collect();
        referring.sort_unstable();
        expected.sort_unstable();
        if referring != expected {
            found
                .push(format!("file {file}: belongs to {referring:?}, was sent with {expected:?}"));
        }
    }
    Ok(())
}
