//! The database itself is whole: every reference leads somewhere, every unique value is unique, and
//! every check holds, by reading the tables and not the indexes.

use anyhow::Result;
use sqlx::{AssertSqlSafe, PgPool};

/// Writes a query for each constraint that counts the rows which break it.
const QUERIES: &str = r"
    select c.conname::text, format(
        'select count(*) from %s c where %s and not exists (select 1 from %s p where %s)',
        c.conrelid::regclass,
        string_agg(format('c.%I is not null', a.attname), ' and '),
        c.confrelid::regclass,
        string_agg(format('p.%I = c.%I', b.attname, a.attname), ' and '))
    from pg_constraint c
    cross join unnest(c.conkey, c.confkey) as k (child, parent)
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.child
    join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.parent
    where c.contype = 'f' and c.connamespace = 'public'::regnamespace
    group by c.oid, c.conname, c.conrelid, c.confrelid
    union all
    select c.conname::text, format('select count(*) from %s where not (%s)',
        c.conrelid::regclass, pg_get_expr(c.conbin, c.conrelid))
    from pg_constraint c
    where c.contype = 'c' and c.connamespace = 'public'::regnamespace
    union all
    select i.relname::text, format(
        'select count(*) from (select 1 from %s where (%s) group by %s having count(*) > 1) d',
        x.indrelid::regclass,
        coalesce(pg_get_expr(x.indpred, x.indrelid), 'true'),
        string_agg(format('%I', a.attname), ', '))
    from pg_index x
    join pg_class i on i.oid = x.indexrelid
    cross join unnest(x.indkey::smallint[]) as k (number)
    join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.number
    where x.indisunique and i.relnamespace = 'public'::regnamespace
    group by i.relname, x.indrelid, x.indpred, x.indexrelid
";

/// Where the server has it, the structure of every index is read too.
const INDEXES: &str = r"
    select bt_index_check(x.indexrelid, true)
    from pg_index x
    join pg_class i on i.oid = x.indexrelid
    join pg_am m on m.oid = i.relam
    where m.amname = 'btree' and i.relnamespace = 'public'::regnamespace
";

pub(super) async fn check(admin: &PgPool, found: &mut Vec<String>) -> Result<()> {
    let mut conn = admin.acquire().await?;
    sqlx::raw_sql(
        "set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off",
    )
    .execute(&mut *conn)
    .await?;
    let queries: Vec<(String, String)> = sqlx::query_as(QUERIES).fetch_all(&mut *conn).await?;
    anyhow::ensure!(queries.len() > 40, "only {} constraints were found", queries.len());
    for (name, query) in queries {
        let broken: i64 = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut *conn).await?;
        if broken > 0 {
            found.push(format!("constraint {name}: {broken} rows break it"));
        }
    }
    let available: bool = sqlx::query_scalar(
        "select exists (select 1 from pg_available_extensions where name = 'amcheck')",
    )
    .fetch_one(&mut *conn)
    .await?;
    if available {
        sqlx::raw_sql("create extension if not exists amcheck").execute(&mut *conn).await?;
        if let Err(error) = sqlx::query(INDEXES).fetch_all(&mut *conn).await {
            found.push(format!("an index is broken: {error}"));
        }
    }
    // The settings of this session are not for the next.
    conn.close_on_drop();
    Ok(())
}
