//! Titles that the model gives. A title that stands is never replaced by one of these.

use crate::{
    codec::without_nul,
    db::{Scope, Store},
    error::Error,
};
use famulus_core::ids::TurnId;

impl Store {
    /// Gives the turn's conversation a title, unless it has one.
    pub(crate) async fn title_of_turn(&self, turn: TurnId, title: &str) -> Result<(), Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        sqlx::query!(
            "update conversation c set title = $2
             from turn t where t.id = $1 and c.id = t.conversation_id and c.title is null",
            turn.0,
            without_nul(title),
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("give a conversation its title"))?;
        tx.commit().await.map_err(Error::on("give a conversation its title"))
    }
}
