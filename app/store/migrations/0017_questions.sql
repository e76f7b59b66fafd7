-- Questions in the chats of those who are asked, and where to reach a person.

-- The chat with the account's holder alone, when it was used last, and since when nothing may be written there.
alter table identity add column chat text;
alter table identity add column used_at timestamptz;
alter table identity add column unreachable_at timestamptz;

-- Where a person is reached first; unless they say so it is where they wrote last.
alter table person add column home uuid references identity on delete set null;

-- The message with the buttons, until it says what became of the question; and who answered.
alter table approval add column question uuid references outbox on delete set null;
alter table approval add column is_shown_closed boolean not null default false;
alter table approval add column decider_id uuid references person;
create index approval_unasked on approval (created_at) where state = 'pending' and question is null;
create index approval_unclosed on approval (created_at)
    where question is not null and state <> 'pending' and not is_shown_closed;

-- The message that it takes the place of.
alter table outbox add column edits uuid references outbox on delete cascade;

-- Where a stranger asked to be let in: there they are reached from then on.
alter table pairing add column chat text;
