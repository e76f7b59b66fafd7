//! What the installation's owner sees of the database and the queue, and how a dead letter is put
//! back to work.

use crate::{
    codec::read_enum,
    db::{Scope, Store},
    error::Error,
};
use famulus_core::{crash, ids::WorkerId};
use famulus_lifecycle::boxed;
use famulus_queue::{
    Class,
    hint::Topic,
    inspect::{self, DeadLetter, Depth},
};
use serde::Deserialize;
use uuid::Uuid;

/// The database as this process finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFacts {
    /// The server's own words, for example `17.5`.
    pub version: String,
    /// The role in force.
    pub role: String,
    pub is_superuser: bool,
    /// Whether row-level security would not hold this role.
    pub bypasses_rls: bool,
    /// `None` when the role may not know.
    pub size_bytes: Option<i64>,
}

/// The queue, class by class.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueReport {
    pub classes: Vec<(Class, Depth)>,
    /// The processes that hold leases.
    pub workers: Vec<WorkerId>,
}

impl Store {
    /// Looks at the database under the role that serves.
    #[boxed]
    pub async fn database_facts(&self) -> Result<DatabaseFacts, Error> {
        sqlx::query_as!(
            DatabaseFacts,
            r#"select current_setting('server_version') as "version!",
                      rolname::text as "role!",
                      rolsuper as "is_superuser!",
                      rolbypassrls as "bypasses_rls!",
                      case when has_database_privilege(current_database(), 'connect')
                          then pg_database_size(current_database()) end as size_bytes
               from pg_roles where rolname = current_user"#
        )
        .fetch_one(&self.relaxed)
        .await
        .map_err(Error::on("describe itself"))
    }

    /// Counts what waits, runs and died.
    #[boxed]
    pub async fn queue_report(&self) -> Result<QueueReport, Error> {
        let mut classes = Vec::with_capacity(Class::ALL.len());
        for class in Class::ALL {
            classes.push((class, inspect::depth(&self.relaxed, class).await?));
        }
        let workers = sqlx::query_scalar!(
            r#"select distinct worker as "worker!" from queue_lane
               where worker is not null order by 1"#
        )
        .fetch_all(&self.relaxed)
        .await
        .map_err(Error::on("count the workers"))?;
        Ok(QueueReport { classes, workers: workers.into_iter().map(WorkerId).collect() })
    }

    /// Jobs that will not be tried again by themselves, newest first.
    #[boxed]
    pub async fn dead_letters(&self, limit: i64) -> Result<Vec<DeadLetter>, Error> {
        Ok(inspect::dead_letters(&self.relaxed, limit).await?)
    }

    /// Puts a dead letter back at the end of its lane, and its turn or message back to the state in
    /// which it waited; false when there is no such dead letter.
    #[boxed]
    pub async fn revive(&self, job: Uuid) -> Result<bool, Error> {
        let mut tx = self.begin(Scope::System).await?;
        let Some(class) = sqlx::query_scalar!(
            "select class from queue_job where id = $1 and dead for update",
            job,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("find the dead letter"))?
        else {
            return Ok(false);
        };
        let class = read_enum::<Kind>("the class of a job", &class)?;
        let update = match class {
            Kind::Turn => Some(sqlx::query!(
                "update turn set state = 'queued', error = null, ended_at = null
                 where id = $1 and state = 'failed'",
                job,
            )),
            Kind::Delivery => Some(sqlx::query!(
                "update outbox set state = 'pending', error = null, ended_at = null, since = now(),
                     outcome_told = false
                 where id = $1 and state in ('failed', 'unknown', 'sending')",
                job,
            )),
            // It is there for as long as it has a job.
            Kind::Arrival => None,
        };
        if let Some(update) = update {
            let done = update.execute(&mut *tx).await;
            done.map_err(Error::on("revive the dead letter"))?;
        }
        let revived = inspect::revive(&mut tx, job).await?;
        crash::before("dead.revive");
        tx.commit().await.map_err(Error::on("revive the dead letter"))?;
        crash::after("dead.revive");
        self.hints.announce(match class {
            Kind::Turn => Topic::Turn,
            Kind::Delivery => Topic::Delivery,
            Kind::Arrival => Topic::Arrival,
        });
        Ok(revived)
    }
}

/// [`Class`] as it stands in the column.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Turn,
    Delivery,
    Arrival,
}
