-- Plugins of one machine: what the owner wants of each. In a cluster that stands in Plugin resources, and these
-- stay empty.

create table plugin (
    uid         uuid primary key,
    name        text not null unique check (name ~ '^[a-z0-9-]{1,63}$'),
    -- Where its files come from: JSON as bytes.
    source      bytea not null,
    -- The revision that waits for a yes; the one that the owner permitted and that is to serve; the one that
    -- serves. The last two each with the tools that may run and what they reach.
    offered     text,
    wanted      text,
    wanted_tools text[] not null default '{}',
    wanted_egress text not null default 'none' check (wanted_egress in ('none', 'internet')),
    revision    text,
    tools       text[] not null default '{}',
    egress      text not null default 'none' check (egress in ('none', 'internet')),
    -- The number of what its runners are given.
    rendered    bigint not null default 1,
    -- Why what is wanted does not serve.
    reason      text,
    message     text,
    created_at  timestamptz not null default now(),
    check ((reason is null) = (message is null))
);

-- What became of a plugin, and by whom. It goes with the plugin; of one, the newest are kept.
create table plugin_event (
    id          bigint generated always as identity primary key,
    plugin      uuid not null references plugin on delete cascade,
    at          timestamptz not null default now(),
    what        text not null,
    who         text,
    revision    text
);
create index plugin_event_plugin on plugin_event (plugin, id);
