//! Approvals: asked in the transaction that records the call, decided once, used up once.

use crate::{
    codec::read_enum,
    db::{Scope, Store, Tx},
    error::Error,
};
use famulus_core::{
    approval::{Approval, ApprovalState, call_hash},
    crash,
    ids::{ApprovalId, ConversationId, PersonId, TokenId, TurnId},
    tool::CallKey,
    turn::RecordedCall,
};
use famulus_queue::{Class, Instant, hint::Topic, lane};
use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

/// Which question is answered.
#[derive(Clone, Debug)]
pub enum Decide {
    Id(ApprovalId),
    Code(String),
}

/// What came of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    Done(Approval),
    /// It was answered before, or its time had run out.
    Closed(ApprovalState),
    /// There is no such question of this person.
    Missing,
}

struct Row {
    id: Uuid,
    conversation_id: Uuid,
    turn_id: Uuid,
    code: String,
    tool: String,
    summary: String,
    shown: String,
    state: String,
    expires_at: Instant,
}

impl TryFrom<Row> for Approval {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: ApprovalId(row.id),
            conversation: ConversationId(row.conversation_id),
            turn: TurnId(row.turn_id),
            code: row.code,
            tool: row.tool,
            summary: row.summary,
            shown: row.shown,
            state: read_enum("an approval's state", &row.state)?,
            expires_at: row.expires_at.0,
        })
    }
}

impl Store {
    /// The person's questions, newest first; only those in `state` when it is given.
    pub async fn approvals(
        &self,
        person: PersonId,
        state: Option<ApprovalState>,
        limit: i64,
    ) -> Result<Vec<Approval>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let rows = sqlx::query_as!(
            Row,
            r#"select id, conversation_id, turn_id, code, tool, summary, shown, state,
                      expires_at as "expires_at: Instant"
               from approval
               where $1::text is null or (state = $1 and ($1 <> 'pending' or expires_at > now()))
               order by created_at desc limit $2"#,
            state.map(ApprovalState::as_str),
            limit,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read approvals"))?;
        tx.commit().await.map_err(Error::on("read approvals"))?;
        rows.into_iter().map(Approval::try_from).collect()
    }

    /// Answers a question of this person, and wakes the turn that waits for it.
    ///
    /// Whether the caller may answer at all (the owner scope) is checked before.
    pub async fn decide(
        &self,
        person: PersonId,
        which: &Decide,
        yes: bool,
        token: TokenId,
        via: &str,
    ) -> Result<Decided, Error> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        let (id, code) = match which {
            Decide::Id(id) => (Some(id.0), None),
            Decide::Code(code) => (None, Some(code.as_str())),
        };
        let Some(conversation) = sqlx::query_scalar!(
            "select conversation_id from approval
             where id = $1 or (code = $2 and state = 'pending')",
            id,
            code,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("find the approval"))?
        else {
            return Ok(Decided::Missing);
        };
        lock_conversation(&mut tx, conversation).await?;
        let (state, word) = if yes { ("approved", "approve") } else { ("denied", "deny") };
        let decided = sqlx::query_as!(
            Row,
            r#"update approval
               set state = $3, decided_by = $4, decided_via = $5, decided_at = now()
               where (id = $1 or (code = $2 and state = 'pending'))
                 and state = 'pending' and expires_at > now()
               returning id, conversation_id, turn_id, code, tool, summary, shown, state,
                         expires_at as "expires_at: Instant""#,
            id,
            code,
            state,
            token.0,
            via,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("answer the approval"))?;
        let Some(row) = decided else {
            return self.why_closed(tx, id, code).await;
        };
        lane::wake(&mut tx, Class::Turn, &[row.conversation_id]).await?;
        crash::before("approval.decide");
        tx.commit().await.map_err(Error::on("answer the approval"))?;
        crash::after("approval.decide");
        tracing::info!(approval.id = %row.id, answer = word, via, "an approval was answered");
        self.hints.announce(Topic::Turn);
        self.hints.announce(Topic::Control);
        Ok(Decided::Done(row.try_into()?))
    }

    async fn why_closed(
        &self,
        mut tx: Tx,
        id: Option<Uuid>,
        code: Option<&str>,
    ) -> Result<Decided, Error> {
        let state = sqlx::query_scalar!(
            "select state from approval where id = $1 or code = $2
             order by created_at desc limit 1",
            id,
            code,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("read the approval"))?;
        let Some(state) = state else { return Ok(Decided::Missing) };
        let state: ApprovalState = read_enum("an approval's state", &state)?;
        // Still pending means that its time has run out and no worker has noticed yet.
        Ok(Decided::Closed(match state {
            ApprovalState::Pending => ApprovalState::Expired,
            closed @ (ApprovalState::Approved
            | ApprovalState::Denied
            | ApprovalState::Expired
            | ApprovalState::Superseded
            | ApprovalState::Consumed) => closed,
        }))
    }
}

/// Holds the conversation's row: what arrives, waits, is answered or ends in a conversation is
/// ordered by it.
pub(crate) async fn lock_conversation(conn: &mut PgConnection, id: Uuid) -> Result<(), Error> {
    sqlx::query_scalar!(
        r#"select 1 as "one!" from conversation where id = $1 for no key update"#,
        id
    )
    .fetch_optional(conn)
    .await
    .map_err(Error::on("lock the conversation"))?;
    Ok(())
}

pub(crate) async fn ask(
    conn: &mut PgConnection,
    host: Uuid,
    key: CallKey,
    approval: &Approval,
    arguments: &str,
) -> Result<(), Error> {
    sqlx::query!(
        "insert into approval (id, person_id, conversation_id, turn_id, step, call, code, tool,
                               summary, shown, call_hash, state, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'pending', $12)",
        approval.id.0,
        host,
        approval.conversation.0,
        key.turn.0,
        key.step as i32,
        key.call as i32,
        approval.code,
        approval.tool,
        crate::codec::without_nul(&approval.summary),
        crate::codec::without_nul(&approval.shown),
        &call_hash(&approval.tool, arguments)[..],
        Instant(approval.expires_at) as _,
    )
    .execute(conn)
    .await
    .map_err(Error::on("ask for approval"))?;
    Ok(())
}

/// Uses a yes up; false when there is none for exactly this call.
pub(crate) async fn consume(conn: &mut PgConnection, call: &RecordedCall) -> Result<bool, Error> {
    let done = sqlx::query!(
        "update approval set state = 'consumed'
         where turn_id = $1 and step = $2 and call = $3
           and (state = 'approved' or (state = 'consumed' and $5))
           and call_hash = $4",
        call.key.turn.0,
        call.key.step as i32,
        call.key.call as i32,
        &call_hash(&call.call.name, &call.call.arguments)[..],
        // A successor of the worker that used the yes up goes on with the same call.
        call.state == famulus_core::turn::CallState::Sent,
    )
    .execute(conn)
    .await
    .map_err(Error::on("use the approval up"))?;
    Ok(done.rows_affected() == 1)
}

/// Closes the questions of a turn that are still open: those whose time has run out expire, and
/// with `supersede` the others are withdrawn.
pub(crate) async fn close_open(
    conn: &mut PgConnection,
    turn: TurnId,
    now: Timestamp,
    supersede: bool,
) -> Result<(), Error> {
    sqlx::query!(
        "update approval
         set state = case when expires_at <= $2 then 'expired' else 'superseded' end,
             decided_at = now()
         where turn_id = $1 and state = 'pending' and (expires_at <= $2 or $3)",
        turn.0,
        Instant(now) as _,
        supersede,
    )
    .execute(conn)
    .await
    .map_err(Error::on("close approvals"))?;
    Ok(())
}
