-- Chat channels: who listens to an account of ours, what was heard, who asked to be let in, and which pieces of a
-- message were taken.

-- An account of ours on a platform. One process listens to it at a time: it holds a lease by the clock of the
-- database, and writes with its fencing token.
create table channel_account (
    channel         text not null,
    account         text not null,
    listener        uuid,
    fence           bigint not null default 0,
    listens_until   timestamptz,
    -- Where to go on, in the platform's words. Everything before it is stored.
    place           text,
    -- Why nobody hears anything, in words; none while all is well. Since when it is as it is.
    down            text,
    since           timestamptz not null default now(),
    primary key (channel, account)
);

-- What a platform told, in its words, until it was read. Whoever wrote it may be anybody, so it is nobody's.
create table arrival (
    id          uuid primary key,
    channel     text not null,
    account     text not null,
    key         text not null,
    chat        text not null,
    body        bytea not null,
    -- What a code is made of, if it comes to one: the same however often it is read.
    random      bytea not null check (octet_length(random) = 8),
    created_at  timestamptz not null default now(),
    unique (channel, account, key)
);
create index arrival_chat on arrival (channel, account, chat, id);

-- Strangers who were told a code, one each. Of what they wrote nothing is kept.
create table pairing (
    channel     text not null,
    account     text not null,
    external_id text not null,
    -- As the platform shows them; anybody may take any name.
    name        text not null,
    language    text,
    -- SHA-256 of the code that they were told.
    code_hash   bytea not null unique check (octet_length(code_hash) = 32),
    created_at  timestamptz not null default now(),
    expires_at  timestamptz not null,
    primary key (channel, account, external_id)
);

-- A person who is disabled hears nothing and is not answered.
alter table person add column disabled_at timestamptz;

-- A code goes to somebody who is no person yet, and has no conversation.
alter table outbox alter column person_id drop not null;
alter table outbox alter column conversation_id drop not null;
alter table outbox alter column turn_id drop not null;

-- Pieces of a message that were taken, by the platform's ids: the next one leaves when this is recorded.
alter table outbox add column taken text[] not null default '{}';

-- Whether somebody was told that nobody knows whether it arrived. Of those before, nobody is told now.
alter table outbox add column outcome_told boolean not null default false;
update outbox set outcome_told = true where state = 'unknown';
create index outbox_untold on outbox (id) where state = 'unknown' and not outcome_told;
