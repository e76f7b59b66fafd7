//! Turns that no worker could finish: failed for the person, kept for whoever looks.

use crate::{
    db::{Scope, Store},
    error::Error,
    history, outbox, schedules,
};
use famulus_core::{
    ids::{MessageId, TurnId},
    inbound::Address,
    message::{MessageRole, Part, Sentinel},
    turn::{Fence, NewMessage},
};
use famulus_queue::{Class, hint::Topic, lane, lane::Progress};

impl Store {
    /// Fails a turn whose workers died again and again, tells the person, and moves its job to the
    /// dead letters, from where it can be tried again.
    pub async fn bury_turn(&self, fence: &Fence, turn: TurnId, reason: &str) -> Result<(), Error> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        let (place, seq) = history::place(&mut tx, turn).await?;
        lane::guard(&mut tx, Class::Turn, fence, Progress::None).await?;
        let message = NewMessage {
            id: MessageId::new(),
            parts: vec![Part::sentinel(Sentinel::Failed)],
            blocks: None,
        };
        history::append(&mut tx, place, seq, MessageRole::Assistant, message, None).await?;
        let row = sqlx::query!(
            "update turn set state = 'failed', error = $2, ended_at = now()
             where id = $1 returning schedule_id, origin",
            turn.0,
            reason,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::on("fail the turn"))?;
        sqlx::query!(
            "update conversation set live_turn = null, live_ord = null, live_person = null
             where id = $1 and live_turn = $2",
            place.conversation,
            turn.0,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("fail the turn"))?;
        let origin: Option<Address> = row
            .origin
            .map(serde_json::from_value)
            .transpose()
            .map_err(Error::unreadable("an address"))?;
        if let Some(to) = origin.filter(|to| to.channel != "none") {
            let text = format!("Something went wrong: {reason}.");
            outbox::send(&mut tx, fence.person, place.conversation, turn, &to, &text).await?;
        }
        if let Some(schedule) = row.schedule_id {
            schedules::outcome(&mut tx, schedule, Some(reason)).await?;
        }
        lane::bury(&mut tx, Class::Turn, fence, turn.0, reason).await?;
        tx.commit().await.map_err(Error::on("bury the turn"))?;
        tracing::error!(turn.id = %turn, reason, "a turn was moved to the dead letters");
        self.hints.announce(Topic::Control);
        self.hints.announce(Topic::Delivery);
        Ok(())
    }
}
