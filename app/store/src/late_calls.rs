//! Calls whose results come later: expected before the call is sent, delivered once.
//!
//! ```text
//! expect (hash of the token) ─► … ─► late_call ─► accept (key: the call) ─► delivered
//! ```
//!
//! A delivery that broke off between the last two comes again, and its message is found to be there.

use crate::{
    codec::read_enum,
    db::{Scope, Store},
    error::Error,
    schedules::read_address,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError, crash,
    ids::{AgentId, ConversationId, PersonId},
    plugin::{LateCall, LateCalls},
};
use famulus_lifecycle::boxed;
use famulus_queue::Instant;
use serde::Deserialize;

/// A call as it is looked up when its result comes.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedCall {
    pub call: LateCall,
    pub state: LateState,
    /// Whose conversation it is.
    pub host: PersonId,
    /// The zone in which a model reads times.
    pub time_zone: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateState {
    Expected,
    Delivered,
}

#[async_trait]
impl LateCalls for Store {
    async fn expect(&self, call: &LateCall) -> Result<(), StoreError> {
        let origin = call.origin.as_ref().map(serde_json::to_value).transpose();
        let origin = origin.map_err(Error::unreadable("an address"))?;
        let mut tx = self.begin(Scope::Person(call.person)).await?;
        sqlx::query!(
            "insert into sandbox_call (id, plugin, tool, person_id, agent_id, conversation_id,
                                       origin, token_hash, state, expires_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, 'expected', $9)
             on conflict (id) do update
             set token_hash = excluded.token_hash, expires_at = excluded.expires_at
             where sandbox_call.state = 'expected'",
            call.id,
            call.plugin,
            call.tool,
            call.person.0,
            call.agent.0,
            call.conversation.0,
            origin,
            &call.token_hash[..],
            Instant(call.expires_at) as _,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("expect the result of a call"))?;
        crash::before("late.expect");
        tx.commit().await.map_err(Error::on("expect the result of a call"))?;
        crash::after("late.expect");
        Ok(())
    }

    async fn is_late(&self, person: PersonId, id: &str) -> Result<bool, StoreError> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let is_late = sqlx::query_scalar!(
            r#"select exists (select 1 from sandbox_call where id = $1) as "is!""#,
            id,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::on("find a call"))?;
        tx.commit().await.map_err(Error::on("find a call"))?;
        Ok(is_late)
    }
}

impl Store {
    /// The call whose result somebody brings, whoever's it is.
    #[boxed]
    pub async fn late_call(&self, id: &str) -> Result<Option<ExpectedCall>, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let row = sqlx::query!(
            r#"select s.id, s.plugin, s.tool, s.person_id, s.agent_id, s.conversation_id, s.origin,
                      s.token_hash, s.state, s.expires_at as "expires_at: Instant",
                      c.person_id as host, p.time_zone
               from sandbox_call s
               join conversation c on c.id = s.conversation_id
               join person p on p.id = s.person_id
               where s.id = $1"#,
            id,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("find a call"))?;
        tx.commit().await.map_err(Error::on("find a call"))?;
        let Some(row) = row else { return Ok(None) };
        let mut token_hash = [0; 32];
        // The table holds it to 32 bytes.
        for (to, from) in token_hash.iter_mut().zip(&row.token_hash) {
            *to = *from;
        }
        Ok(Some(ExpectedCall {
            call: LateCall {
                id: row.id,
                plugin: row.plugin,
                tool: row.tool,
                person: PersonId(row.person_id),
                agent: AgentId(row.agent_id),
                conversation: ConversationId(row.conversation_id),
                origin: read_address(row.origin)?,
                token_hash,
                expires_at: row.expires_at.0,
            },
            state: read_enum("the state of a call", &row.state)?,
            host: PersonId(row.host),
            time_zone: row.time_zone,
        }))
    }

    /// Notes that the result has come and its message is stored. The token counts no more.
    #[boxed]
    pub async fn late_call_delivered(&self, person: PersonId, id: &str) -> Result<(), Error> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        sqlx::query!(
            "update sandbox_call set state = 'delivered', delivered_at = now()
             where id = $1 and state = 'expected'",
            id,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("note that a result has come"))?;
        tx.commit().await.map_err(Error::on("note that a result has come"))?;
        Ok(())
    }
}
