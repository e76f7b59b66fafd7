//! What the installation says by itself, in chats: codes, answers to commands, questions.

use crate::{
    NOBODY,
    codec::encode,
    db::{Scope, Store},
    error::Error,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError, crash,
    ids::{OutboundId, PersonId},
    inbound::Address,
    outbound::Button,
    pairing::Tell,
};
use famulus_queue::{Class, Job, hint::Topic, lane};
use sha2::{Digest, Sha256};
use sqlx::PgConnection;

/// Something that is said.
pub(crate) struct Said<'a> {
    pub(crate) id: OutboundId,
    /// Whose it is; none where it is said to somebody who is not known.
    pub(crate) person: Option<PersonId>,
    pub(crate) to: &'a Address,
    pub(crate) markdown: &'a str,
    pub(crate) buttons: &'a [Button],
    /// The message that it takes the place of.
    pub(crate) edits: Option<OutboundId>,
}

/// Puts it on its way; false where it is there already.
pub(crate) async fn put(conn: &mut PgConnection, said: &Said<'_>) -> Result<bool, Error> {
    let Said { id, person, to, markdown, buttons, edits } = said;
    let body = encode(
        "an outbound message",
        &serde_json::json!({ "markdown": markdown, "attachments": [], "buttons": buttons }),
    )?;
    let put = sqlx::query!(
        "insert into outbox (id, person_id, address, body, state, edits)
         values ($1, $2, $3, $4, 'pending', $5) on conflict (id) do nothing",
        id.0,
        person.map(|person| person.0),
        serde_json::to_value(to).map_err(Error::unreadable("an address"))?,
        body,
        edits.map(|edits| edits.0),
    )
    .execute(&mut *conn)
    .await
    .map_err(Error::on("say something"))?;
    if put.rows_affected() == 0 {
        return Ok(false);
    }
    let person = person.unwrap_or(NOBODY);
    let job = Job { id: id.0, class: Class::Delivery, lane: to.lane(), person };
    lane::enqueue(conn, Class::Delivery, &[job]).await?;
    Ok(true)
}

#[async_trait]
impl Tell for Store {
    async fn tell(
        &self,
        key: &str,
        to: &Address,
        person: Option<PersonId>,
        markdown: &str,
    ) -> Result<(), StoreError> {
        Ok(self.say(key, to, person, markdown).await?)
    }

    async fn told(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.was_said(key).await?)
    }
}

impl Store {
    async fn say(
        &self,
        key: &str,
        to: &Address,
        person: Option<PersonId>,
        markdown: &str,
    ) -> Result<(), Error> {
        let mut tx = self.begin(Scope::System).await?;
        let said = Said { id: of_key(key), person, to, markdown, buttons: &[], edits: None };
        put(&mut tx, &said).await?;
        crash::before("tell.commit");
        tx.commit().await.map_err(Error::on("say something"))?;
        crash::after("tell.commit");
        self.hints.announce(Topic::Delivery);
        Ok(())
    }

    async fn was_said(&self, key: &str) -> Result<bool, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let said = sqlx::query_scalar!("select true from outbox where id = $1", of_key(key).0)
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::on("see what was said"))?;
        tx.commit().await.map_err(Error::on("see what was said"))?;
        Ok(said.is_some())
    }
}

/// The id of what is said once for a key.
fn of_key(key: &str) -> OutboundId {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&Sha256::digest(key)[..16]);
    OutboundId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}
