//! Questions in the chats of those who are asked: put there when they open, and closed there wherever
//! they are answered.
//!
//! ```text
//! pending, unasked ─► a message with buttons, to the chat of whoever is asked
//! closed ─► a change of that message: what became of it, and no buttons
//! ```
//!
//! Sweepers do both, each question in one transaction, so that no place that opens or closes one need know
//! of chats.

use crate::{
    codec::read_enum,
    db::{Scope, Store},
    error::Error,
    say::{Said, put},
};
use famulus_core::{
    approval::ApprovalState,
    crash,
    ids::{ApprovalId, OutboundId, PersonId},
    inbound::Address,
    outbound::Button,
};
use famulus_lifecycle::boxed;
use famulus_queue::hint::Topic;

/// An open question that nobody was asked in a chat, and the chat where whoever is asked is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unasked {
    pub id: ApprovalId,
    /// For whom the call would run; none where it is whoever is asked.
    pub person: Option<String>,
    pub code: String,
    /// What the call will do, in one line, and its exact arguments.
    pub summary: String,
    pub shown: String,
    pub asked: PersonId,
    pub to: Address,
}

/// A question that was asked in a chat, and is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub id: ApprovalId,
    /// For whom the call would run; none where it is whoever was asked.
    pub person: Option<String>,
    pub summary: String,
    pub state: ApprovalState,
    /// Who answered, and by what.
    pub by: Option<String>,
    pub via: Option<String>,
    pub asked: PersonId,
    pub to: Address,
    /// The message with the buttons.
    pub question: OutboundId,
}

impl Store {
    /// Open questions whose person is reached on one of these channels: in the chat that asked, if it is
    /// theirs, else at their home, else where they wrote last.
    #[boxed]
    pub async fn unasked_questions(
        &self,
        channels: &[String],
        limit: i64,
    ) -> Result<Vec<Unasked>, Error> {
        let failed = || Error::on("look for questions");
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let rows = sqlx::query!(
            r#"select a.id, case when p.id <> who.id then p.name end as person, a.code, a.summary,
                      a.shown, who.id as asked,
                      i.channel, i.account, i.chat as "chat!"
               from approval a
               join person p on p.id = coalesce(a.actor_id, a.person_id)
               join turn t on t.id = a.turn_id
               join person who on case when a.asked = 'owner' then who.role = 'owner'
                                       else who.id = p.id end
               cross join lateral (
                   select i.channel, i.account, i.chat from identity i
                   where i.person_id = who.id and i.chat is not null and i.unreachable_at is null
                       and i.channel = any($1)
                   order by (i.channel, i.account, i.chat) is not distinct from
                                (t.origin ->> 'channel', t.origin ->> 'account', t.origin ->> 'chat')
                                desc,
                            i.id is not distinct from who.home desc,
                            i.used_at desc nulls last
                   limit 1
               ) i
               where a.state = 'pending' and a.question is null and a.expires_at > now()
                   and who.disabled_at is null
               order by a.created_at limit $2"#,
            channels,
            limit,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(failed())?;
        tx.commit().await.map_err(failed())?;
        let unasked = rows.into_iter().map(|row| Unasked {
            id: ApprovalId(row.id),
            person: row.person,
            code: row.code,
            summary: row.summary,
            shown: row.shown,
            asked: PersonId(row.asked),
            to: Address {
                channel: row.channel,
                account: row.account,
                chat: row.chat,
                thread: None,
                reply_to: None,
            },
        });
        Ok(unasked.collect())
    }

    /// Puts a question on its way, once: nothing happens where it was closed or asked meanwhile.
    #[boxed]
    pub async fn ask_in_chat(
        &self,
        unasked: &Unasked,
        markdown: &str,
        buttons: &[Button],
    ) -> Result<(), Error> {
        let failed = || Error::on("ask in a chat");
        let mut tx = self.begin(Scope::System).await?;
        let id = OutboundId::new();
        let Unasked { asked, to, .. } = unasked;
        let message = Said { id, person: Some(*asked), to, markdown, buttons, edits: None };
        put(&mut tx, &message).await?;
        let asked = sqlx::query!(
            "update approval set question = $2
             where id = $1 and state = 'pending' and question is null",
            unasked.id.0,
            id.0,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        if asked.rows_affected() == 0 {
            return Ok(());
        }
        crash::before("question.ask");
        tx.commit().await.map_err(failed())?;
        crash::after("question.ask");
        self.hints.announce(Topic::Delivery);
        Ok(())
    }

    /// Questions that are closed and still have their buttons.
    #[boxed]
    pub async fn closed_questions(&self, limit: i64) -> Result<Vec<Closed>, Error> {
        let failed = || Error::on("look for closed questions");
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let rows = sqlx::query!(
            r#"select a.id, case when p.id <> o.person_id then p.name end as person, a.summary,
                      a.state, a.decided_via,
                      who.name as "by?", o.person_id as "asked!", o.address, o.id as question
               from approval a
               join person p on p.id = coalesce(a.actor_id, a.person_id)
               join outbox o on o.id = a.question
               left join person who on who.id = a.decider_id
               where a.question is not null and a.state <> 'pending' and not a.is_shown_closed
               order by a.created_at limit $1"#,
            limit,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(failed())?;
        tx.commit().await.map_err(failed())?;
        rows.into_iter()
            .map(|row| {
                Ok(Closed {
                    id: ApprovalId(row.id),
                    person: row.person,
                    summary: row.summary,
                    state: read_enum("an approval's state", &row.state)?,
                    by: row.by,
                    via: row.decided_via,
                    asked: PersonId(row.asked),
                    to: serde_json::from_value(row.address)
                        .map_err(Error::unreadable("an address"))?,
                    question: OutboundId(row.question),
                })
            })
            .collect()
    }

    /// Puts a change of the message with the buttons on its way, once.
    #[boxed]
    pub async fn close_in_chat(&self, closed: &Closed, markdown: &str) -> Result<(), Error> {
        let failed = || Error::on("close a question in a chat");
        let mut tx = self.begin(Scope::System).await?;
        let Closed { asked, to, question, .. } = closed;
        let (id, edits) = (OutboundId::new(), Some(*question));
        let message = Said { id, person: Some(*asked), to, markdown, buttons: &[], edits };
        put(&mut tx, &message).await?;
        let shown = sqlx::query!(
            "update approval set is_shown_closed = true where id = $1 and not is_shown_closed",
            closed.id.0,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        if shown.rows_affected() == 0 {
            return Ok(());
        }
        crash::before("question.close");
        tx.commit().await.map_err(failed())?;
        crash::after("question.close");
        self.hints.announce(Topic::Delivery);
        Ok(())
    }
}
