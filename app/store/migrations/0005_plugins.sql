-- Plugins: their revisions, the calls whose results come later, and who starts and ends runners.

-- A revision is named by the digest of its bundle. Nobody owns it: it holds no person's data.
-- description: JSON as bytes, because jsonb reorders keys. bundle: whose pieces are its content; null
-- until it is whole.
create table plugin_revision (
    digest      text primary key check (digest ~ '^sha256:[0-9a-f]{64}$'),
    plugin      text not null,
    description bytea not null,
    bundle      uuid,
    size        bigint,
    created_at  timestamptz not null default now(),
    check ((bundle is null) = (size is null))
);
create index plugin_revision_bundle on plugin_revision (bundle) where bundle is not null;

-- Each upload writes pieces of its own, so that two of one bundle do not meet.
create table plugin_bundle_piece (
    bundle      uuid not null,
    number      integer not null,
    data        bytea not null check (octet_length(data) <= 262144),
    created_at  timestamptz not null default now(),
    primary key (bundle, number)
);
alter table plugin_bundle_piece alter column data set storage external;
create index plugin_bundle_piece_age on plugin_bundle_piece (created_at);

-- A call that ends later. The token with which its result comes is known by its hash alone.
create table sandbox_call (
    id              text primary key,
    plugin          text not null,
    tool            text not null,
    person_id       uuid not null references person,
    agent_id        uuid not null references agent,
    conversation_id uuid not null references conversation,
    origin          jsonb,
    token_hash      bytea not null check (octet_length(token_hash) = 32),
    state           text not null check (state in ('expected', 'delivered')),
    created_at      timestamptz not null default now(),
    expires_at      timestamptz not null,
    delivered_at    timestamptz
);
create index sandbox_call_age on sandbox_call (created_at);

-- When a plugin, named by its UID, was used, and who of all processes was last let start or end its
-- runner.
create table runner_demand (
    plugin      text primary key,
    used_at     timestamptz not null,
    turn        text not null check (turn in ('none', 'start', 'stop')),
    turned_at   timestamptz not null
);

alter table sandbox_call enable row level security;
alter table sandbox_call force row level security;
create policy own_rows on sandbox_call using (
    (select current_setting('famulus.persons', true)) = '*'
    or person_id = any ((
        select string_to_array(
            nullif(nullif(current_setting('famulus.persons', true), ''), '*'), ','
        )::uuid[]
    )::uuid[])
);
