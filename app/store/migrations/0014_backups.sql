-- What became of the last backup, and of the last look whether one can be restored, as it is told by whoever
-- takes them: in a cluster that is another process, with a role that writes nothing else. `restored` is said
-- by a restore, as the last thing that it does.
create table backup_report (
    kind   text primary key
           check (kind in ('taken', 'not taken', 'verified', 'not verified', 'restored')),
    -- The name of the backup; none where none was taken.
    backup text,
    at     timestamptz not null,
    -- In words, of what failed.
    reason text
);

-- Which role that is, the database cannot know, and rights are no part of a backup. A function that anybody
-- may call who may connect at all needs none.
create function report_backup(of_kind text, of_backup text, of_time timestamptz, why text) returns void
language sql security definer set search_path = public, pg_temp as $$
    insert into backup_report (kind, backup, at, reason)
    values (of_kind, of_backup, of_time, left(why, 2000))
    on conflict (kind) do update
        set backup = excluded.backup, at = excluded.at, reason = excluded.reason
$$;
