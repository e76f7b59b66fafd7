-- How long bundles are kept.
--
-- described_at: when somebody built the revision last, so that one that comes back counts as new.
-- missing_since: when a whole list of Plugins first lacked the one that the revision is of; null while
-- it is there.
alter table plugin_revision add column described_at timestamptz not null default now();
alter table plugin_revision add column missing_since timestamptz;
