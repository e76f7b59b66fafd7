-- What went out goes when it is old; it is found by when it ended.
create index outbox_ended on outbox (ended_at) where ended_at is not null;
