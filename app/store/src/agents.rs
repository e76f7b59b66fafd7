//! Agents: rows in and out as core's words. Whether the tools that they name exist is checked by
//! whoever knows the catalogue, before an agent gets here.

use crate::{codec::without_nul, db::Store, error::Error};
use famulus_core::{
    agent::{Agent, Budgets, Grants},
    ids::AgentId,
};
use famulus_lifecycle::boxed;
use sqlx::PgConnection;
use uuid::Uuid;

/// What an agent is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAgent {
    pub name: String,
    pub prompt: String,
    pub model: Option<String>,
    /// At most [`famulus_core::agent::HARD_STEP_CAP`]; the database refuses more.
    pub step_cap: Option<u32>,
    pub budgets: Budgets,
    pub tools: Grants,
}

/// What may be changed of an agent; `None` leaves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentChange {
    pub prompt: Option<String>,
    /// `Some(None)` goes back to the provider's default.
    pub model: Option<Option<String>>,
    /// `Some(None)` goes back to the hard cap.
    pub step_cap: Option<Option<u32>>,
    pub budgets: Option<Budgets>,
    pub tools: Option<Grants>,
}

struct Row {
    id: Uuid,
    name: String,
    prompt: String,
    model: Option<String>,
    step_cap: Option<i32>,
    budget_read: i32,
    budget_write: i32,
    budget_external: i32,
    tools: Vec<String>,
}

impl From<Row> for Agent {
    fn from(row: Row) -> Self {
        Self {
            id: AgentId(row.id),
            name: row.name,
            prompt: row.prompt,
            model: row.model,
            step_cap: row.step_cap.map(|cap| cap as u32),
            budgets: Budgets {
                read: row.budget_read as u32,
                write: row.budget_write as u32,
                external: row.budget_external as u32,
            },
            tools: Grants::from_names(row.tools),
        }
    }
}

impl Store {
    /// The agent of this name.
    #[boxed]
    pub async fn agent_by_name(&self, name: &str) -> Result<Option<Agent>, Error> {
        if !may_be_a_name(name) {
            return Ok(None);
        }
        sqlx::query_as!(
            Row,
            "select id, name, prompt, model, step_cap, budget_read, budget_write, budget_external,
                    tools
             from agent where name = $1",
            name,
        )
        .fetch_optional(&self.relaxed)
        .await
        .map(|row| row.map(Agent::from))
        .map_err(Error::on("read an agent"))
    }

    /// All agents, in the order in which they were made.
    #[boxed]
    pub async fn agents(&self) -> Result<Vec<Agent>, Error> {
        sqlx::query_as!(
            Row,
            "select id, name, prompt, model, step_cap, budget_read, budget_write, budget_external,
                    tools
             from agent order by created_at, id",
        )
        .fetch_all(&self.relaxed)
        .await
        .map(|rows| rows.into_iter().map(Agent::from).collect())
        .map_err(Error::on("read agents"))
    }

    /// Adds an agent; `None` when the name is taken.
    #[boxed]
    pub async fn create_agent(&self, new: NewAgent) -> Result<Option<Agent>, Error> {
        let agent = Agent {
            id: AgentId::new(),
            name: without_nul(&new.name),
            prompt: without_nul(&new.prompt),
            model: new.model.as_deref().map(without_nul),
            step_cap: new.step_cap,
            budgets: new.budgets,
            tools: new.tools,
        };
        let done = sqlx::query!(
            "insert into agent (id, name, prompt, model, step_cap, budget_read, budget_write,
                                budget_external, tools)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             on conflict (name) do nothing",
            agent.id.0,
            agent.name,
            agent.prompt,
            agent.model,
            count(agent.step_cap),
            count(Some(agent.budgets.read)),
            count(Some(agent.budgets.write)),
            count(Some(agent.budgets.external)),
            &names(&agent.tools),
        )
        .execute(&self.durable)
        .await
        .map_err(Error::on("add an agent"))?;
        Ok((done.rows_affected() == 1).then_some(agent))
    }

    /// Changes the agent of this name, for turns that begin from now on; `None` when there is none.
    #[boxed]
    pub async fn change_agent(
        &self,
        name: &str,
        change: AgentChange,
    ) -> Result<Option<Agent>, Error> {
        let mut tx = self.durable.begin().await.map_err(Error::on("change an agent"))?;
        let Some(mut agent) = locked(&mut tx, name).await? else { return Ok(None) };
        let AgentChange { prompt, model, step_cap, budgets, tools } = change;
        if let Some(prompt) = prompt {
            agent.prompt = without_nul(&prompt);
        }
        if let Some(model) = model {
            agent.model = model.as_deref().map(without_nul);
        }
        if let Some(step_cap) = step_cap {
            agent.step_cap = step_cap;
        }
        if let Some(budgets) = budgets {
            agent.budgets = budgets;
        }
        if let Some(tools) = tools {
            agent.tools = tools;
        }
        sqlx::query!(
            "update agent set prompt = $2, model = $3, step_cap = $4, budget_read = $5,
                    budget_write = $6, budget_external = $7, tools = $8
             where id = $1",
            agent.id.0,
            agent.prompt,
            agent.model,
            count(agent.step_cap),
            count(Some(agent.budgets.read)),
            count(Some(agent.budgets.write)),
            count(Some(agent.budgets.external)),
            &names(&agent.tools),
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("change an agent"))?;
        tx.commit().await.map_err(Error::on("change an agent"))?;
        Ok(Some(agent))
    }
}

/// Postgres does not even compare what holds this character.
fn may_be_a_name(name: &str) -> bool {
    !name.contains('\0')
}

async fn locked(conn: &mut PgConnection, name: &str) -> Result<Option<Agent>, Error> {
    if !may_be_a_name(name) {
        return Ok(None);
    }
    sqlx::query_as!(
        Row,
        "select id, name, prompt, model, step_cap, budget_read, budget_write, budget_external, tools
         from agent where name = $1 for no key update",
        name,
    )
    .fetch_optional(conn)
    .await
    .map(|row| row.map(Agent::from))
    .map_err(Error::on("read an agent"))
}

/// A number beyond the column's range is stored as the largest, and refused there if a check says
/// so; it never wraps round to a small one.
fn count(number: Option<u32>) -> Option<i32> {
    number.map(|number| i32::try_from(number).unwrap_or(i32::MAX))
}

fn names(grants: &Grants) -> Vec<String> {
    grants.0.iter().map(|name| without_nul(name)).collect()
}
