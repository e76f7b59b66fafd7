-- What people call a schedule, where somebody named it. The release before leaves it alone.
alter table schedule add column name text;

-- Missed slots beyond those that are listed one by one are one row: how many in a row it stands
-- for, and the first of them; due_at is the last. The release before writes rows of one slot, and
-- reads such a row as one missed slot.
alter table schedule_slot
    add column slots bigint not null default 1 check (slots > 0),
    add column first_due_at timestamptz;
