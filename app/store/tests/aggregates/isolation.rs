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
const OPEN: [&str; 4] = ["identity", "invitation", "queue_job", "token"];

/// A question is seen by more people than may answer it: one policy for each thing that is done.
fn policies_of(table: &str) -> i64 {
    if table == "approval" { 4 } else { 1 }
}

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
            let guarded =
                GUARDED.iter().map(|(table, _)| ((*table).to_owned(), true, policies_of(table)));
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
        assert_eq!(policies, GUARDED.iter().map(|(table, _)| policies_of(table)).sum::<i64>());
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

/// What somebody may make of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    Do,
    /// It is seen, and not theirs to answer so.
    See,
    Nothing,
}

/// Tries in a transaction that is rolled back.
async fn tried(conn: &mut PgConnection, statement: String) -> May {
    let mut tx = conn.begin().await.unwrap();
    let done = tx.execute(AssertSqlSafe(statement)).await;
    tx.rollback().await.unwrap();
    match done {
        Ok(done) if done.rows_affected() == 0 => May::Nothing,
        Ok(_) => May::Do,
        Err(error) => {
            let code = error.as_database_error().and_then(DatabaseError::code).unwrap();
            assert_eq!(code, "42501", "{error}");
            May::See
        }
    }
}

#[tokio::test]
async fn a_question_is_answered_by_whom_it_is_put_to_and_refused_by_the_owner_too() {
    use May::{Do, Nothing, See};
    with_store(async |world| {
        let (owner, _) = world.store.ensure_owner("Olga", "UTC").await.unwrap();
        let (owner, ada, bob) =
            (owner.id, world.person("Ada").await.id, world.person("Bob").await.id);
        let mut tx = world.admin.begin().await.unwrap();
        for person in [owner, ada] {
            for (table, statement) in &GUARDED[..2] {
                assert!(["conversation", "turn"].contains(table));
                tx.execute(AssertSqlSafe(for_person(statement, person))).await.unwrap();
            }
        }
        tx.commit().await.unwrap();
        let insert = |number: usize, host: PersonId, who: &str, state: &str| {
            let (columns, values) = match who {
                "" => (String::new(), String::new()),
                asked => (", actor_id, asked".to_owned(), format!(", {asked}")),
            };
            format!(
                "insert into approval (id, person_id, conversation_id, turn_id, step, call, code,
                     tool, summary, shown, call_hash, state, expires_at{columns})
                 values (gen_random_uuid(), '{host}', '{host}', '{host}', 0, {number}, '{number}',
                     't', 's', 's', sha256('x'), '{state}', now(){values})"
            )
        };
        let mut sessions = Vec::new();
        for person in [owner, ada, bob] {
            sessions.push(session(&world.url, Some(&person.to_string())).await);
        }
        // Host, for whom it would run and who is asked; then, of the owner, Ada and Bob, what a yes
        // and a no of theirs is. The release before names nobody.
        let (of_owner, of_ada) = (format!("'{owner}', 'owner'"), format!("'{ada}', 'owner'"));
        let her_own = format!("'{ada}', 'person'");
        let table = [
            (owner, of_owner.as_str(), [[Do, Do], [Nothing; 2], [Nothing; 2]]),
            (owner, "", [[Do, Do], [Nothing; 2], [Nothing; 2]]),
            (owner, &her_own, [[See, Do], [Do, Do], [Nothing; 2]]),
            (ada, &her_own, [[See, Do], [Do, Do], [Nothing; 2]]),
            (ada, &of_ada, [[Do, Do], [See, See], [Nothing; 2]]),
            (ada, "", [[Do, Do], [See, See], [Nothing; 2]]),
        ];
        for (number, (host, who, expected)) in table.into_iter().enumerate() {
            let statement = insert(number, host, who, "pending");
            world.admin.execute(AssertSqlSafe(statement)).await.unwrap();
            for (session, expected) in sessions.iter_mut().zip(expected) {
                for (state, expected) in ["approved", "denied"].into_iter().zip(expected) {
                    let answer =
                        format!("update approval set state = '{state}' where call = {number}");
                    let found = tried(session, answer).await;
                    assert_eq!(found, expected, "{state} by {number}: {who}");
                }
            }
        }
        // A worker acts in the host's name: it asks, uses up and withdraws, and says no yes.
        let hers = &mut sessions[1];
        for (state, expected) in [("pending", Do), ("approved", See), ("denied", See)] {
            assert_eq!(tried(hers, insert(99, ada, &her_own, state)).await, expected, "{state}");
        }
        for state in ["consumed", "expired", "superseded"] {
            let closed = format!("update approval set state = '{state}' where call = 4");
            assert_eq!(tried(hers, closed).await, Do, "{state}");
        }
    })
    .await;
}
