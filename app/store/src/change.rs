//! Messages that their senders changed before anybody read them.
//!
//! A change has a key of its own, which the next change may name: it stands for the same message.

use crate::{
    accept_batch::message_of,
    db::{Scope, Store, Tx},
    error::Error,
};
use famulus_core::{
    accept::{EDITED, Replaced},
    ids::MessageId,
    inbound::Inbound,
};
use std::borrow::Cow;

impl Store {
    /// See [`famulus_core::accept::Accept::replace`]. A message is read when its turn begins, or when the
    /// turn that it joined takes it in; both hold the conversation's row.
    pub(crate) async fn put_in_place(
        &self,
        original: &str,
        inbound: &Inbound,
    ) -> Result<Replaced, Error> {
        let failed = || Error::on("change a message");
        let mut tx = self.begin(Scope::Persons(&[inbound.host, inbound.person])).await?;
        let known = sqlx::query!(
            "select m.id, m.conversation_id from inbox i join message m on m.id = i.message_id
             where i.channel = $1 and i.account = $2 and i.external_id = $3 and m.sender_id = $4",
            inbound.reply.channel,
            inbound.reply.account,
            original,
            inbound.person.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed())?;
        let Some(known) = known else { return Ok(Replaced::No) };
        sqlx::query_scalar!(
            r#"select 1 as "one!" from conversation where id = $1 for no key update"#,
            known.conversation_id,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed())?;
        let stands = sqlx::query!(
            r#"select m.body as "body!", t.state = 'queued' or not m.seen as "is_unread!",
                      exists (select 1 from message_blob b where b.message_id = m.id) as "has_files!"
               from message m join turn t on t.id = m.turn_id where m.id = $1"#,
            known.id,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(failed())?;
        let (parts, visible) = message_of(&marked_as(&stands.body, inbound))?;
        if stands.body == visible {
            stands_for(&mut tx, inbound, MessageId(known.id)).await?;
            tx.commit().await.map_err(failed())?;
            return Ok(Replaced::Same);
        }
        if !stands.is_unread || stands.has_files || !inbound.attachments.is_empty() {
            return Ok(Replaced::No);
        }
        sqlx::query!(
            "update message set parts = $2, body = $3 where id = $1",
            known.id,
            parts,
            visible,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        stands_for(&mut tx, inbound, MessageId(known.id)).await?;
        tx.commit().await.map_err(failed())?;
        Ok(Replaced::Done)
    }
}

/// What changes a change is one, too.
fn marked_as<'a>(stands: &str, inbound: &'a Inbound) -> Cow<'a, Inbound> {
    if !stands.starts_with(EDITED) {
        return Cow::Borrowed(inbound);
    }
    let text = format!("{EDITED}{}", inbound.text);
    Cow::Owned(Inbound { text, ..inbound.clone() })
}

/// Has the key of a change name the message that it changed.
async fn stands_for(tx: &mut Tx, inbound: &Inbound, message: MessageId) -> Result<(), Error> {
    let Some(key) = &inbound.external_id else { return Ok(()) };
    sqlx::query!(
        "insert into inbox (channel, account, external_id, person_id, body_hash, message_id)
         select $1, $2, $3, m.person_id, $4, m.id from message m where m.id = $5
         on conflict (channel, account, external_id) do nothing",
        inbound.reply.channel,
        inbound.reply.account,
        key,
        &inbound.body_hash[..],
        message.0,
    )
    .execute(&mut **tx)
    .await
    .map(drop)
    .map_err(Error::on("keep the key of a change"))
}
