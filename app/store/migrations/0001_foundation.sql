-- The foundation: people, agents, conversations, turns, the queue, and what goes out.
--
-- Rules that hold for every migration: no extension but vector, no function newer than Postgres 15,
-- and the previous release can work on the result (expand now, contract a release later).
--
-- Ids are made by the app (UUIDv7). What a person owns carries person_id and is guarded by row-level
-- security, forced: a session sees the rows of the persons that it names in famulus.persons, and
-- with nothing named it sees nothing. The value '*' belongs to the sweeps (schedules, retention).

create extension if not exists vector;

-- People -------------------------------------------------------------------------------------

create table person (
    id          uuid primary key,
    name        text not null,
    role        text not null check (role in ('owner', 'member', 'contact')),
    time_zone   text not null,
    language    text not null,
    created_at  timestamptz not null default now()
);

create table identity (
    id          uuid primary key,
    person_id   uuid not null references person on delete cascade,
    channel     text not null,
    account     text not null,
    external_id text not null,
    created_at  timestamptz not null default now(),
    unique (channel, account, external_id)
);

-- Tokens are 32 random bytes; only their SHA-256 is kept.
create table token (
    id          uuid primary key,
    person_id   uuid not null references person on delete cascade,
    name        text not null,
    scope       text not null check (scope in ('owner', 'chat')),
    hash        bytea not null unique check (octet_length(hash) = 32),
    created_at  timestamptz not null default now(),
    revoked_at  timestamptz
);

create table agent (
    id          uuid primary key,
    name        text not null unique,
    prompt      text not null default '',
    model       text,
    step_cap    integer check (step_cap between 0 and 200),
    budget_read     integer not null default 30 check (budget_read >= 0),
    budget_write    integer not null default 10 check (budget_write >= 0),
    budget_external integer not null default 10 check (budget_external >= 0),
    tools       text[] not null default '{}',
    created_at  timestamptz not null default now()
);

-- Conversations --------------------------------------------------------------------------------

-- live_*: the turn that holds the lane, so that an accepting transaction, which locks this row,
-- knows whom a new message may steer.
create table conversation (
    id          uuid primary key,
    person_id   uuid not null references person,
    agent_id    uuid not null references agent,
    key         text not null unique,
    title       text,
    last_seq    bigint not null default 0,
    live_turn   uuid,
    live_ord    bigint,
    live_person uuid,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now()
) with (fillfactor = 70);
create index conversation_person on conversation (person_id);

-- ord: the seq of the message that began the turn. Messages are read in the order (turn_ord, seq),
-- so that a reply stands behind its question even when the next question was already waiting.
create table turn (
    id              uuid primary key,
    conversation_id uuid not null references conversation,
    person_id       uuid not null,
    actor_id        uuid not null references person,
    agent_id        uuid not null references agent,
    parent_id       uuid references turn,
    depth           integer not null default 0 check (depth between 0 and 4),
    ord             bigint not null,
    state           text not null check (state in
                        ('queued', 'running', 'waiting', 'complete', 'failed', 'cancelled')),
    steps           integer not null default 0,
    model           text,
    input_tokens    bigint,
    output_tokens   bigint,
    error           text,
    began_by        text not null,
    origin          jsonb,
    schedule_id     uuid,
    -- What viewers were shown of replies that are recorded: (fence, number) of the last event.
    shown_fence     bigint not null default 0,
    shown_number    bigint not null default 0,
    cancel_requested_at timestamptz,
    created_at      timestamptz not null default now(),
    started_at      timestamptz,
    ended_at        timestamptz
) with (fillfactor = 70);
create index turn_conversation on turn (conversation_id, ord);
create index turn_unfinished on turn (id) where state in ('queued', 'running', 'waiting');

-- parts: JSON as bytes, because jsonb refuses NUL and reorders keys. body: the visible text, for
-- lists and search, with NUL replaced. blocks: what the provider sent, byte for byte.
-- seen: false for a message that joined a running turn and has not been read by it.
create table message (
    id              uuid primary key,
    conversation_id uuid not null references conversation,
    person_id       uuid not null,
    sender_id       uuid references person,
    turn_id         uuid not null references turn deferrable initially deferred,
    turn_ord        bigint not null,
    seq             bigint not null,
    parent_id       uuid,
    role            text not null check (role in ('user', 'assistant', 'tool')),
    source          jsonb,
    external_id     text,
    provenance      text not null,
    parts           bytea not null,
    body            text not null,
    provider        text,
    blocks          bytea,
    model           text,
    seen            boolean not null default true,
    sent_at         timestamptz,
    created_at      timestamptz not null default now(),
    unique (conversation_id, turn_ord, seq)
);

-- A tool call is recorded before it is sent.
create table tool_call (
    turn_id     uuid not null references turn,
    step        integer not null,
    call        integer not null,
    item        integer not null default 0,
    person_id   uuid not null,
    provider_id text not null,
    tool        text not null,
    arguments   bytea not null,
    effect      text not null check (effect in ('read', 'write', 'external')),
    repeat      text not null check (repeat in ('safe', 'never')),
    state       text not null check (state in ('planned', 'sent', 'done')),
    output      bytea,
    created_at  timestamptz not null default now(),
    sent_at     timestamptz,
    done_at     timestamptz,
    primary key (turn_id, step, call, item)
);

-- What a keyed effect inside this database returned: the same key happens once.
create table effect (
    key         text primary key,
    person_id   uuid not null,
    result      bytea not null,
    created_at  timestamptz not null default now()
);

create table approval (
    id              uuid primary key,
    person_id       uuid not null,
    conversation_id uuid not null references conversation,
    turn_id         uuid not null references turn,
    step            integer not null,
    call            integer not null,
    code            text not null,
    tool            text not null,
    summary         text not null,
    shown           text not null,
    call_hash       bytea not null check (octet_length(call_hash) = 32),
    state           text not null check (state in
                        ('pending', 'approved', 'denied', 'expired', 'superseded', 'consumed')),
    decided_by      uuid references token,
    decided_via     text,
    expires_at      timestamptz not null,
    created_at      timestamptz not null default now(),
    decided_at      timestamptz,
    unique (turn_id, step, call)
);
create unique index approval_code on approval (code) where state = 'pending';

-- What viewers read; kept for a while after the turn, not part of the transcript.
create table event (
    conversation_id uuid not null,
    fence           bigint not null,
    number          bigint not null,
    person_id       uuid not null,
    turn_id         uuid not null,
    data            bytea not null,
    created_at      timestamptz not null default now(),
    primary key (conversation_id, fence, number)
);
create index event_age on event using brin (created_at);

-- Coming in and going out -----------------------------------------------------------------------

-- One row per message id of a channel (or Idempotency-Key of a caller): a repeat finds it.
create table inbox (
    channel         text not null,
    account         text not null,
    external_id     text not null,
    person_id       uuid not null,
    body_hash       bytea not null check (octet_length(body_hash) = 32),
    message_id      uuid not null,
    created_at      timestamptz not null default now(),
    primary key (channel, account, external_id)
);

create table outbox (
    id              uuid primary key,
    person_id       uuid not null,
    conversation_id uuid not null references conversation,
    turn_id         uuid not null references turn,
    address         jsonb not null,
    body            bytea not null,
    state           text not null check (state in
                        ('pending', 'sending', 'delivered', 'unknown', 'failed')),
    attempts        integer not null default 0,
    error           text,
    created_at      timestamptz not null default now(),
    ended_at        timestamptz
);
create index outbox_open on outbox (created_at) where state in ('pending', 'sending', 'unknown', 'failed');

-- Whom tools reached during a turn, so that a fallback does not reach them again.
create table reached (
    turn_id     uuid not null references turn,
    person_id   uuid not null,
    channel     text not null,
    account     text not null,
    chat        text not null,
    primary key (turn_id, channel, account, chat)
);

-- Knowledge, schedules, files ---------------------------------------------------------------------

create table knowledge (
    id          uuid primary key,
    person_id   uuid not null references person,
    kind        text not null check (kind in ('memory', 'scratchpad')),
    title       text not null default '',
    body        text not null,
    provenance  text not null,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now()
);
create index knowledge_person on knowledge (person_id, created_at);

create table schedule (
    id              uuid primary key,
    person_id       uuid not null references person,
    agent_id        uuid not null references agent,
    conversation_id uuid not null references conversation,
    note            text not null,
    rule            jsonb not null,
    time_zone       text not null,
    origin          jsonb,
    announce        boolean not null default true,
    missed          text not null check (missed in ('run_once', 'skip')),
    enabled         boolean not null default true,
    failures        integer not null default 0,
    last_error      text,
    -- Slots up to here are decided; the next one is due at next_due.
    decided_until   timestamptz not null,
    next_due        timestamptz,
    created_at      timestamptz not null default now()
);
create index schedule_due on schedule (next_due) where enabled and next_due is not null;
create index schedule_person on schedule (person_id, created_at);

-- A slot happens once: fired or missed.
create table schedule_slot (
    schedule_id uuid not null references schedule on delete cascade,
    due_at      timestamptz not null,
    person_id   uuid not null,
    outcome     text not null check (outcome in ('fired', 'missed')),
    turn_id     uuid,
    decided_at  timestamptz not null default now(),
    primary key (schedule_id, due_at)
);

-- state 'partial' while it streams in; only 'whole' blobs are ever referred to.
create table blob (
    id          uuid primary key,
    person_id   uuid not null references person,
    sha256      bytea not null,
    mime        text not null,
    size        bigint not null,
    state       text not null check (state in ('partial', 'whole')),
    created_at  timestamptz not null default now()
);
create unique index blob_content on blob (person_id, sha256, mime) where state = 'whole';

create table blob_piece (
    blob_id     uuid not null references blob on delete cascade,
    number      integer not null,
    person_id   uuid not null,
    data        bytea not null check (octet_length(data) <= 262144),
    primary key (blob_id, number)
);
-- Pieces are mostly compressed already (pictures, audio): trying again only costs time.
alter table blob_piece alter column data set storage external;

-- While a message refers to a blob, the blob cannot go.
create table message_blob (
    message_id  uuid not null references message deferrable initially deferred,
    blob_id     uuid not null references blob on delete restrict,
    person_id   uuid not null,
    primary key (message_id, blob_id)
);
create index message_blob_blob on message_blob (blob_id);

-- The queue ---------------------------------------------------------------------------------------

-- A lane is what a worker leases: jobs of one lane run one after another. due_at says when somebody
-- may claim it: now (ready), the deadline (waiting), the end of the lease (leased), never (idle).
create table queue_lane (
    class       text not null,
    id          uuid not null,
    state       text not null check (state in ('idle', 'ready', 'leased', 'waiting')),
    due_at      timestamptz,
    pending     integer not null check (pending >= 0),
    attempts    integer not null default 0,
    fence       bigint not null default 0,
    worker      uuid,
    primary key (class, id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index queue_lane_due on queue_lane (class, due_at) where due_at is not null;

create table queue_job (
    id          uuid primary key,
    class       text not null,
    lane        uuid not null,
    person_id   uuid not null,
    ord         bigint generated by default as identity,
    dead        boolean not null default false,
    reason      text,
    attempts    integer not null default 0,
    created_at  timestamptz not null default now(),
    died_at     timestamptz
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index queue_job_next on queue_job (class, lane, ord) where not dead;
create index queue_job_dead on queue_job (died_at) where dead;

-- Row-level security --------------------------------------------------------------------------------

do $$
declare
    guarded text;
begin
    foreach guarded in array array[
        'conversation', 'turn', 'message', 'tool_call', 'effect', 'approval', 'event', 'inbox',
        'outbox', 'reached', 'knowledge', 'schedule', 'schedule_slot', 'blob', 'blob_piece',
        'message_blob'
    ] loop
        execute format('alter table %I enable row level security', guarded);
        execute format('alter table %I force row level security', guarded);
        -- The sub-selects make Postgres evaluate the setting once per statement, not per row.
        execute format($policy$
            create policy own_rows on %I using (
                (select current_setting('famulus.persons', true)) = '*'
                or person_id = any ((
                    select string_to_array(
                        nullif(nullif(current_setting('famulus.persons', true), ''), '*'), ','
                    )::uuid[]
                )::uuid[])
            )
        $policy$, guarded);
    end loop;
end
$$;

-- The agent that every installation has.
insert into agent (id, name, tools)
values ('01900000-0000-7000-8000-000000000001', 'main', '{*}');
