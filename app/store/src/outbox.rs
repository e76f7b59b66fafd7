//! Messages on their way out, as the delivery worker takes them up and settles them.
//!
//! ```text
//! pending ─► sending ─► delivered
//!    ▲          ├─ certainly not sent: back to pending, tried again
//!    │          ├─ refused: failed, a dead letter
//!    └── retry ─┴─ may have arrived: unknown, a person decides
//! ```
//!
//! `sending` is recorded before the message leaves. A worker that finds it there took over from one
//! that died in between: a channel that ignores repeats is simply asked again, and what may come twice is
//! sent again; for anything else the outcome is unknown.

use crate::{
    NOBODY,
    codec::{decode, encode, read_enum, without_nul},
    db::{Scope, Store, Tx, rename},
    error::Error,
    reach::set_reach,
};
use famulus_core::{
    crash,
    ids::{ConversationId, OutboundId, PersonId, TurnId},
    inbound::{Address, Attachment},
    outbound::{Button, Outbound},
    turn::Fence,
};
use famulus_lifecycle::boxed;
use famulus_queue::{Class, Job, lane, lane::Progress};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use std::time::Duration;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboxState {
    Pending,
    /// On its way: recorded before it left.
    Sending,
    Delivered,
    /// It may have arrived. It is not sent again unless a person says so.
    Unknown,
    Failed,
}

impl OutboxState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Delivered => "delivered",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}

/// A message as the delivery worker takes it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    pub outbound: Outbound,
    /// [`OutboxState::Sending`] means that a predecessor died while it sent.
    pub state: OutboxState,
    /// How often it was begun to be sent.
    pub attempts: i32,
    /// How long it has been tried.
    pub tried_for: Duration,
    /// The platform's ids of the pieces that it took, in order; one that has none is empty.
    pub taken: Vec<String>,
    /// Where it takes the place of another message: the platform's ids of that one, of which there are none
    /// where nobody knows whether it arrived.
    pub edits: Option<Vec<String>>,
    /// A code, or the answer to a command: who reads it twice knows no less, and who never does waits in
    /// vain. A question is another one's: it is asked again by another message.
    pub may_come_twice: bool,
}

/// Why a message was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// It certainly did not arrive: try again after a while. Where the channel named the time, it was no
    /// try.
    NotSent { reason: String, retry_after: Duration, is_try: bool },
    /// It may have arrived.
    Unknown { reason: String },
    /// It never will.
    Refused { reason: String },
    /// Nor will anything else, until somebody writes there again.
    Unreachable { reason: String },
}

/// The stored body: JSON, as bytes.
#[derive(Deserialize)]
struct Body {
    markdown: String,
    attachments: Vec<Attachment>,
    #[serde(default)]
    buttons: Vec<Button>,
}

/// What a turn sends.
pub(crate) struct Sending<'a> {
    pub(crate) host: PersonId,
    pub(crate) conversation: Uuid,
    pub(crate) turn: TurnId,
    pub(crate) to: &'a Address,
    pub(crate) markdown: &'a str,
    pub(crate) attachments: &'a [Attachment],
}

/// Puts a message on its way, in the transaction that produced it.
pub(crate) async fn send(
    conn: &mut PgConnection,
    sending: &Sending<'_>,
) -> Result<OutboundId, Error> {
    let Sending { host, conversation, turn, to, markdown, attachments } = sending;
    let id = OutboundId::new();
    let body = encode(
        "an outbound message",
        &serde_json::json!({ "markdown": markdown, "attachments": attachments }),
    )?;
    sqlx::query!(
        "insert into outbox (id, person_id, conversation_id, turn_id, address, body, state)
         values ($1, $2, $3, $4, $5, $6, 'pending')",
        id.0,
        host.0,
        conversation,
        turn.0,
        serde_json::to_value(to).map_err(Error::unreadable("an address"))?,
        body,
    )
    .execute(&mut *conn)
    .await
    .map_err(Error::on("put the reply on its way"))?;
    let job = Job { id: id.0, class: Class::Delivery, lane: to.lane(), person: *host };
    lane::enqueue(conn, Class::Delivery, &[job]).await?;
    Ok(id)
}

/// Whose rows a delivery writes: those of nobody are the system's.
fn scope_of(fence: &Fence) -> Scope<'_> {
    if fence.person == NOBODY { Scope::System } else { Scope::Person(fence.person) }
}

/// For the delivery worker: every write proves its lease.
impl Store {
    /// The message of a delivery job; `None` when it is gone.
    #[boxed]
    pub async fn load_delivery(&self, id: OutboundId) -> Result<Option<DeliveryRecord>, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let row = sqlx::query!(
            r#"select o.person_id, o.conversation_id, o.address, o.body, o.state, o.attempts, o.taken,
                      extract(epoch from now() - o.since)::float8 as "seconds!",
                      e.taken as "edits?", o.turn_id is null as "is_own!"
               from outbox o left join outbox e on e.id = o.edits where o.id = $1"#,
            id.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("read an outbound message"))?;
        tx.commit().await.map_err(Error::on("read an outbound message"))?;
        let Some(row) = row else { return Ok(None) };
        let Body { markdown, attachments, buttons } = decode("an outbound message", &row.body)?;
        let may_come_twice = row.is_own && buttons.is_empty();
        Ok(Some(DeliveryRecord {
            outbound: Outbound {
                id,
                person: row.person_id.map(PersonId),
                conversation: row.conversation_id.map(ConversationId),
                to: serde_json::from_value(row.address).map_err(Error::unreadable("an address"))?,
                markdown,
                attachments,
                buttons,
            },
            state: read_enum("the state of an outbound message", &row.state)?,
            attempts: row.attempts,
            tried_for: Duration::try_from_secs_f64(row.seconds).unwrap_or_default(),
            taken: row.taken,
            edits: row.edits,
            may_come_twice,
        }))
    }

    /// Records that the message is about to leave.
    ///
    /// # Errors
    /// [`Error::LeaseLost`]: it must not be sent.
    #[boxed]
    pub async fn mark_sending(&self, fence: &Fence, id: OutboundId) -> Result<(), Error> {
        let mut tx = self.begin(scope_of(fence)).await?;
        lane::guard(&mut tx, Class::Delivery, fence, Progress::None).await?;
        sqlx::query!(
            "update outbox set state = 'sending', attempts = attempts + 1
             where id = $1 and state in ('pending', 'sending')",
            id.0,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("mark a message as leaving"))?;
        crash::before("delivery.sending");
        tx.commit().await.map_err(Error::on("mark a message as leaving"))?;
        crash::after("delivery.sending");
        Ok(())
    }

    /// Records that the channel took a piece of the message: only now may the next one leave.
    ///
    /// # Errors
    /// [`Error::LeaseLost`]: the next piece must not be sent.
    #[boxed]
    pub async fn piece_taken(
        &self,
        fence: &Fence,
        id: OutboundId,
        platform_id: &str,
    ) -> Result<(), Error> {
        let mut tx = self.begin(scope_of(fence)).await?;
        lane::guard(&mut tx, Class::Delivery, fence, Progress::None).await?;
        sqlx::query!(
            "update outbox set taken = taken || $2::text where id = $1 and state = 'sending'",
            id.0,
            without_nul(platform_id),
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("record a piece of a message"))?;
        crash::before("delivery.piece");
        tx.commit().await.map_err(Error::on("record a piece of a message"))?;
        crash::after("delivery.piece");
        Ok(())
    }

    /// Records that the channel took the message, and ends the job. Also right for a job whose
    /// message is gone.
    #[boxed]
    pub async fn delivered(&self, fence: &Fence, id: OutboundId) -> Result<(), Error> {
        let mut tx = self.begin(scope_of(fence)).await?;
        // Completing proves the lease, as giving back and burying do.
        lane::complete(&mut tx, Class::Delivery, fence, id.0).await?;
        set_state(&mut tx, id, OutboxState::Delivered, None).await?;
        settle(tx).await
    }

    /// Records why the message was not delivered, and gives the job back, ends or buries it.
    #[boxed]
    pub async fn delivery_failed(
        &self,
        fence: &Fence,
        id: OutboundId,
        why: &Undelivered,
    ) -> Result<(), Error> {
        let mut tx = self.begin(scope_of(fence)).await?;
        match why {
            Undelivered::NotSent { reason, retry_after, is_try } => {
                lane::retry(&mut tx, Class::Delivery, fence, *retry_after, !is_try).await?;
                set_state(&mut tx, id, OutboxState::Pending, Some(reason)).await?;
                if !is_try {
                    forget_try(&mut tx, id).await?;
                }
            }
            Undelivered::Unknown { reason } => {
                lane::complete(&mut tx, Class::Delivery, fence, id.0).await?;
                // Whoever is asked twice answers once: of a question nobody need be told.
                rename(&mut tx, Scope::System).await?;
                ask_again(&mut tx, id).await?;
                set_state(&mut tx, id, OutboxState::Unknown, Some(reason)).await?;
            }
            Undelivered::Refused { reason } | Undelivered::Unreachable { reason } => {
                let words = without_nul(reason);
                lane::bury(&mut tx, Class::Delivery, fence, id.0, &words).await?;
                if let Undelivered::Unreachable { .. } = why {
                    rename(&mut tx, Scope::System).await?;
                    unreachable(&mut tx, id).await?;
                }
                set_state(&mut tx, id, OutboxState::Failed, Some(reason)).await?;
            }
        }
        settle(tx).await
    }
}

async fn set_state(
    conn: &mut PgConnection,
    id: OutboundId,
    state: OutboxState,
    error: Option<&str>,
) -> Result<(), Error> {
    let open = match state {
        OutboxState::Pending | OutboxState::Sending => true,
        OutboxState::Delivered | OutboxState::Unknown | OutboxState::Failed => false,
    };
    sqlx::query!(
        "update outbox set state = $2, error = $3, ended_at = case when $4 then null else now() end
         where id = $1",
        id.0,
        state.as_str(),
        error.map(without_nul),
        open,
    )
    .execute(conn)
    .await
    .map_err(Error::on("record a delivery"))?;
    Ok(())
}

/// Notes that nothing reaches the chat of a message. A question in it is asked elsewhere.
async fn unreachable(conn: &mut PgConnection, id: OutboundId) -> Result<(), Error> {
    let failed = || Error::on("note who is reached");
    let address = sqlx::query_scalar!("select address from outbox where id = $1", id.0)
        .fetch_one(&mut *conn)
        .await
        .map_err(failed())?;
    let to: Address = serde_json::from_value(address).map_err(Error::unreadable("an address"))?;
    set_reach(conn, &to.channel, &to.account, &to.chat, false).await?;
    ask_again(conn, id).await
}

/// Has a question asked by another message than this one. It may be about a turn of somebody else's.
async fn ask_again(conn: &mut PgConnection, id: OutboundId) -> Result<(), Error> {
    sqlx::query!(
        "update approval set question = null where question = $1 and state = 'pending'",
        id.0,
    )
    .execute(conn)
    .await
    .map_err(Error::on("have a question asked again"))?;
    Ok(())
}

async fn forget_try(conn: &mut PgConnection, id: OutboundId) -> Result<(), Error> {
    sqlx::query!("update outbox set attempts = greatest(0, attempts - 1) where id = $1", id.0)
        .execute(conn)
        .await
        .map_err(Error::on("record a delivery"))?;
    Ok(())
}

async fn settle(tx: Tx) -> Result<(), Error> {
    crash::before("delivery.settle");
    tx.commit().await.map_err(Error::on("record a delivery"))?;
    crash::after("delivery.settle");
    Ok(())
}
