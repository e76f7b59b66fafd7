//! Approvals: asked in the transaction that records the call, decided once, used up once.

use crate::{
    codec::read_enum,
    db::{Scope, Store, Tx, rename},
    error::Error,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    approval::{Approval, ApprovalState, Approvals, Decide, Decided, call_hash},
    crash,
    ids::{ApprovalId, ConversationId, PersonId, TurnId},
    person::Caller,
    tool::CallKey,
    turn::RecordedCall,
};
use famulus_lifecycle::boxed;
use famulus_queue::{Class, Instant, hint::Topic, lane};
use jiff::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

struct Row {
    host: Uuid,
    id: Uuid,
    conversation_id: Uuid,
    turn_id: Uuid,
    person: Uuid,
    person_name: String,
    asked: String,
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
            person: PersonId(row.person),
            person_name: row.person_name,
            asked: read_enum("who is asked", &row.asked)?,
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
    /// The questions that this caller sees, newest first; only those in `state` when it is given.
    #[boxed]
    pub async fn approvals(
        &self,
        caller: &Caller,
        state: Option<ApprovalState>,
        limit: i64,
    ) -> Result<Vec<Approval>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(caller.person.id)).await?;
        let rows = sqlx::query_as!(
            Row,
            r#"select a.person_id as host, a.id, a.conversation_id, a.turn_id, p.id as person,
                      p.name as person_name, a.asked, a.code, a.tool, a.summary, a.shown,
                      a.state, a.expires_at as "expires_at: Instant"
               from approval a join person p on p.id = coalesce(a.actor_id, a.person_id)
               where ($1::text is null or (a.state = $1 and ($1 <> 'pending' or a.expires_at > now())))
                 and ($3 or a.person_id = $4 or a.actor_id = $4)
               order by a.created_at desc limit $2"#,
            state.map(ApprovalState::as_str),
            limit,
            caller.is_owner(),
            caller.person.id.0,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read approvals"))?;
        tx.commit().await.map_err(Error::on("read approvals"))?;
        rows.into_iter().map(Approval::try_from).collect()
    }

    /// Answers a question as far as this caller may, and wakes the turn that waits for it.
    #[boxed]
    pub async fn decide(
        &self,
        caller: &Caller,
        which: &Decide,
        yes: bool,
        via: &str,
    ) -> Result<Decided, Error> {
        let person = caller.person.id;
        let mut tx = self.begin(Scope::Person(person)).await?;
        let Some(found) = find(&mut tx, caller, which).await? else {
            return Ok(Decided::Missing);
        };
        let host = PersonId(found.host);
        let approval = Approval::try_from(found)?;
        if !approval.rights(caller).cover(yes) {
            return Ok(Decided::NotTheirs(approval));
        }
        // The conversation is its host's; the answer is given in the caller's name alone.
        rename(&mut tx, Scope::Person(host)).await?;
        lock_conversation(&mut tx, approval.conversation.0).await?;
        rename(&mut tx, Scope::Person(person)).await?;
        let id = approval.id.0;
        let (state, word) = if yes { ("approved", "approve") } else { ("denied", "deny") };
        let decided = sqlx::query_as!(
            Row,
            r#"update approval a
               set state = $2, decided_by = $3, decided_via = $4, decided_at = now(), decider_id = $5
               from person p
               where a.id = $1 and a.state = 'pending' and a.expires_at > now()
                 and p.id = coalesce(a.actor_id, a.person_id)
               returning a.person_id as host, a.id, a.conversation_id, a.turn_id,
                         p.id as person, p.name as person_name, a.asked, a.code, a.tool, a.summary, a.shown,
                         a.state, a.expires_at as "expires_at: Instant""#,
            id,
            state,
            caller.token.map(|token| token.0),
            via,
            person.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("answer the approval"))?;
        let Some(row) = decided else {
            return why_closed(tx, id).await;
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
}

#[async_trait]
impl Approvals for Store {
    async fn decide(
        &self,
        caller: &Caller,
        which: &Decide,
        yes: bool,
        via: &str,
    ) -> Result<Decided, StoreError> {
        Ok(Self::decide(self, caller, which, yes, via).await?)
    }
}

/// The question, if this caller sees it.
async fn find(
    conn: &mut PgConnection,
    caller: &Caller,
    which: &Decide,
) -> Result<Option<Row>, Error> {
    let (id, code) = match which {
        Decide::Id(id) => (Some(id.0), None),
        Decide::Code(code) => (None, Some(code.as_str())),
    };
    sqlx::query_as!(
        Row,
        r#"select a.person_id as host, a.id, a.conversation_id, a.turn_id, p.id as person,
                  p.name as person_name, a.asked, a.code, a.tool, a.summary, a.shown, a.state,
                  a.expires_at as "expires_at: Instant"
           from approval a join person p on p.id = coalesce(a.actor_id, a.person_id)
           where (a.id = $1 or (a.code = $2 and a.state = 'pending'))
             and ($3 or a.person_id = $4 or a.actor_id = $4)"#,
        id,
        code,
        caller.is_owner(),
        caller.person.id.0,
    )
    .fetch_optional(conn)
    .await
    .map_err(Error::on("find the approval"))
}

async fn why_closed(mut tx: Tx, id: Uuid) -> Result<Decided, Error> {
    let state = sqlx::query_scalar!("select state from approval where id = $1", id)
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
                               summary, shown, call_hash, state, expires_at, actor_id, asked)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'pending', $12, $13, $14)",
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
        approval.person.0,
        approval.asked.as_str(),
    )
    .execute(conn)
    .await
    .map_err(Error::on("ask for approval"))?;
    Ok(())
}

/// The questions that a turn waits for.
pub(crate) async fn pending(conn: &mut PgConnection, turn: TurnId) -> Result<Vec<Approval>, Error> {
    let rows = sqlx::query_as!(
        Row,
        r#"select a.person_id as host, a.id, a.conversation_id, a.turn_id, p.id as person,
                  p.name as person_name, a.asked, a.code, a.tool, a.summary, a.shown, a.state,
                  a.expires_at as "expires_at: Instant"
           from approval a join person p on p.id = coalesce(a.actor_id, a.person_id)
           where a.turn_id = $1 and a.state = 'pending' and a.expires_at > now()
           order by a.step, a.call"#,
        turn.0,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("read the turn's approvals"))?;
    rows.into_iter().map(Approval::try_from).collect()
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
