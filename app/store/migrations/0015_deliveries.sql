-- Since when a message is tried, from which it follows when it is given up: when it was put on its way, or
-- when somebody had it sent again.
alter table outbox add column since timestamptz not null default now();
