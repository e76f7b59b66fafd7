-- A turn that ends without having read what joined it hands that over to another turn. An older
-- release hands nothing over; a sweep does it for turns that such a one ended.

-- The turn that took over what this one had not read.
alter table turn add column successor_id uuid;
-- The turn that handed the message over: a message moves once.
alter table message add column moved_from uuid;

create index turn_unanswered on turn (ended_at)
    where state in ('failed', 'cancelled') and successor_id is null;
