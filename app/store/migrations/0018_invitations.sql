-- Links by which somebody becomes known from an account of theirs without a code.

-- As the platform shows our account, and what a link to it begins with: the words behind it are what whoever opens
-- it says first. The release before leaves both empty.
alter table channel_account add column name text;
alter table channel_account add column link text;

-- Whoever says the secret first is this person, once.
create table invitation (
    -- SHA-256 of 128 random bits.
    secret_hash bytea primary key check (octet_length(secret_hash) = 32),
    channel     text not null,
    account     text not null,
    person_id   uuid not null references person on delete cascade,
    created_at  timestamptz not null default now(),
    expires_at  timestamptz not null,
    -- The latest alone is good.
    unique (channel, account, person_id)
);
