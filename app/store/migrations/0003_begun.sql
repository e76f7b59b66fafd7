-- Which lease's work has begun: the token of the transaction that took the lane's work up. That
-- transaction does not wait for the disk, and a crash of Postgres may forget it while the lease
-- itself is kept; later writes of the lease look here whether it is still there.
--
-- A release that does not know the column works as before: each release looks only for its own
-- tokens.
alter table queue_lane add column begun bigint not null default 0;
