-- Messages that their senders want gone some time after they were read. The release before leaves it empty, and lets
-- nothing vanish.

-- Seconds; null of a message that stays.
alter table message add column vanishes_after integer check (vanishes_after > 0);
create index message_vanishing on message (turn_id) where vanishes_after is not null;
