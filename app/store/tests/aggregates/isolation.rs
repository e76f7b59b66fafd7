//! The database itself keeps people apart: forced row-level security, under a role that it binds.

use crate::support::with_store;
use famulus_core::ids::PersonId;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, error::DatabaseError};

/// Every table with rows of one person, and a statement that makes one for the person `$P`.
const GUARDED: [(&str, &str); 17] = [
    (
        "conversation",
        "insert into conversation (id, person_id, agent_id, key)
         select '$P', '$P', id, '$P' from agent limit 1",
    ),
    (
        "turn",
        "insert into turn (id, conversation_id, person_id, actor_id, agent_id, ord, state, began_by)
         select '$P', '$P', '$P', '$P', id, 1, 'queued', 'member' from agent limit 1",
    ),
    (
        "message",
        "insert into message (id, conversation_id, person_id, turn_id, turn_ord, seq, role,
                              provenance, parts, body)
         values ('$P', '$P', '$P', '$P', 1, 1, 'user', 'member', '[]', '')",
    ),
    (
        "tool_call",
        "insert into tool_call (turn_id, step, call, person_id, provider_id, tool, arguments,
                                effect, repeat, state)
         values ('$P', 0, 0, '$P', 'c', 't', '{}', 'read', 'safe', 'planned')",
    ),
    ("effect", "insert into effect (key, person_id, result) values ('$P', '$P', '')"),
    (
        "approval",
        "insert into approval (id, person_id, conversation_id, turn_id, step, call, code, tool,
                               summary, shown, call_hash, state, expires_at)
         values ('$P', '$P', '$P', '$P', 0, 0, '$P', 't', 's', 's', sha256('x'), 'pending', now())",
    ),
    (
        "event",
        "insert into event (conversation_id, fence, number, person_id, turn_id, data)
         values ('$P', 1, 1, '$P', '$P', '')",
    ),
    (
        "inbox",
        "insert into inbox (channel, account, external_id, person_id, body_hash, message_id)
         values ('http', 'a', '$P', '$P', sha256('x'), '$P')",
    ),
    (
        "outbox",
        "insert into outbox (id, person_id, conversation_id, turn_id, address, body, state)
         values ('$P', '$P', '$P', '$P', '{}', '', 'pending')",
    ),
    (
        "reached",
        "insert into reached (turn_id, person_id, channel, account, chat)
         values ('$P', '$P', 'http', 'a', '1')",
    ),
    (
        "knowledge",
        "insert into knowledge (id, person_id, kind, body, provenance)
         values ('$P', '$P', 'memory', 'b', 'member')",
    ),
    (
        "schedule",
        "insert into schedule (id, person_id, agent_id, conversation_id, note, rule, time_zone,
                               missed, decided_until)
         select '$P', '$P', id, '$P', 'n', '{}', 'UTC', 'skip', now() from agent limit 1",
    ),
    (
        "schedule_slot",
        "insert into schedule_slot (schedule_id, due_at, person_id, outcome)
         values ('$P', now(), '$P', 'missed')",
    ),
    (
        "blob",
        "insert into blob (id, person_id, sha256, mime, size, state)
         values ('$P', '$P', sha256('x'), 'text/plain', 1, 'whole')",
    ),
    (
        "blob_piece",
        "insert into blob_piece (blob_id, number, person_id, data) values ('$P', 0, '$P', 'x')",
    ),
    (
        "sandbox_call",
        "insert into sandbox_call (id, plugin, tool, person_id, agent_id, conversation_id,
                                   token_hash, state, expires_at)
         select '$P', 'p', 't', '$P', id, '$P', sha256('x'), 'expected', now()
         from agent limit 1",
    ),
    (
        "message_blob",
        "insert into message_blob (message_id, blob_id, person_id) values ('$P', '$P', '$P')",
    ),
];

/// Tables that name a person and are not guarded: authentication reads the first two before it
/// knows who asks, and the queue works for everybody.
const OPEN: [&str; 3] = ["identity", "queue_job", "token"];

/// A session as the product's: under its role, with `persons` named, if any.
async fn session(url: &str, persons: Option<&str>) -> PgConnection {
    let mut conn = PgConnection::connect(url).await.unwrap();
    conn.execute("set role famulus_app").await.unwrap();
    if let Some(persons) = persons {
        let statement = format!("set famulus.persons = '{persons}'");
        conn.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    conn
}

async fn rows(conn: &mut PgConnection, table: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(format!("select count(*) from {table}")))
        .fetch_one(conn)
        .await
        .unwrap()
}

fn for_person(statement: &str, person: PersonId) -> String {
    statement.replace("$P", &person.to_string())
}

#[tokio::test]
async fn the_role_in_force_is_bound_by_the_policies() {
    with_store(async |world| {
        let facts = world.store.database_facts().await.unwrap();
        assert!(!facts.is_superuser && !facts.bypasses_rls, "{facts:?}");
        assert_eq!(facts.role, "famulus_app");
        assert!(facts.size_bytes.unwrap() > 0 && !facts.version.is_empty());
    })
    .await;
}

#[tokio::test]
async fn every_table_of_persons_is_guarded_by_force() {
    with_store(async |world| {
        let tables: Vec<(String, bool, i64)> = sqlx::query_as(
            "select c.relname::text, c.relrowsecurity and c.relforcerowsecurity,
                    (select count(*) from pg_policies p
                     where p.schemaname = 'public' and p.tablename = c.relname)
             from pg_class c
             join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'public'
             join pg_attribute a on a.attrelid = c.oid and a.attname = 'person_id'
             where c.relkind in ('r', 'p') order by c.relname",
        )
        .fetch_all(&world.admin)
        .await
        .unwrap();
        let expected: Vec<(String, bool, i64)> = {
            let guarded = GUARDED.iter().map(|(table, _)| ((*table).to_owned(), true, 1));
            let open = OPEN.iter().map(|table| ((*table).to_owned(), false, 0));
            let mut all: Vec<_> = guarded.chain(open).collect();
            all.sort();
            all
        };
        assert_eq!(tables, expected);
        let policies: i64 = sqlx::query_scalar("select count(*) from pg_policies")
            .fetch_one(&world.admin)
            .await
            .unwrap();
        assert_eq!(policies, GUARDED.len() as i64);
    })
    .await;
}

#[tokio::test]
async fn nobody_sees_nothing_and_nobody_sees_somebody_elses() {
    with_store(async |world| {
        let (ada, bob) = (world.person("Ada").await.id, world.person("Bob").await.id);
        for person in [ada, bob] {
            let mut tx = world.admin.begin().await.unwrap();
            for (_, statement) in GUARDED {
                tx.execute(AssertSqlSafe(for_person(statement, person))).await.unwrap();
            }
            tx.commit().await.unwrap();
        }
        let mut unset = session(&world.url, None).await;
        let mut empty = session(&world.url, Some("")).await;
        let mut hers = session(&world.url, Some(&ada.to_string())).await;
        let mut both = session(&world.url, Some(&format!("{ada},{bob}"))).await;
        let mut stranger = session(&world.url, Some(&PersonId::new().to_string())).await;
        let mut sweep = session(&world.url, Some("*")).await;
        for (table, _) in GUARDED {
            assert_eq!(rows(&mut unset, table).await, 0, "{table} with nobody named");
            assert_eq!(rows(&mut empty, table).await, 0, "{table} with an empty name");
            assert_eq!(rows(&mut stranger, table).await, 0, "{table} for a stranger");
            assert_eq!(rows(&mut hers, table).await, 1, "{table} for its person");
            assert_eq!(rows(&mut both, table).await, 2, "{table} for both persons");
            assert_eq!(rows(&mut sweep, table).await, 2, "{table} for a sweep");
            let person: uuid::Uuid =
                sqlx::query_scalar(AssertSqlSafe(format!("select person_id from {table}")))
                    .fetch_one(&mut hers)
                    .await
                    .unwrap();
            assert_eq!(person, ada.0, "{table}");
        }
    })
    .await;
}

#[tokio::test]
async fn nobody_writes_into_somebody_elses_name() {
    with_store(async |world| {
        let (ada, bob) = (world.person("Ada").await.id, world.person("Bob").await.id);
        let mut tx = world.admin.begin().await.unwrap();
        for (_, statement) in GUARDED {
            tx.execute(AssertSqlSafe(for_person(statement, ada))).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut his = session(&world.url, Some(&bob.to_string())).await;
        for (table, statement) in GUARDED {
            let change =
                format!("update {table} set person_id = '{bob}' where person_id = '{ada}'");
            let stolen = his.execute(AssertSqlSafe(change)).await.unwrap();
            assert_eq!(stolen.rows_affected(), 0, "{table}");
            let deletion = format!("delete from {table}");
            let deleted = his.execute(AssertSqlSafe(deletion)).await.unwrap();
            assert_eq!(deleted.rows_affected(), 0, "{table}");
            let forged = for_person(statement, ada);
            let error = his.execute(AssertSqlSafe(forged)).await.unwrap_err();
            let code =
                error.as_database_error().and_then(DatabaseError::code).unwrap().into_owned();
            // Refused by the policy, before any constraint is looked at.
            assert_eq!(code, "42501", "{table}: {error}");
        }
    })
    .await;
}
