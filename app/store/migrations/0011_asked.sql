-- Who is asked: the owner, or the person for whom the call would run, where it touches nothing but
-- things of their own.
--
-- The release before writes neither column: what it asks is asked of the owner, as it always was.

alter table approval
    add column actor_id uuid references person,
    add column asked text not null default 'owner' check (asked in ('owner', 'person')),
    add check (asked = 'owner' or actor_id is not null);

-- The persons that a session names; none for a sweep.
create function named_persons() returns uuid[] language sql stable
return string_to_array(
    nullif(nullif(current_setting('famulus.persons', true), ''), '*'), ','
)::uuid[];

create function names_the_owner() returns boolean language sql stable
return exists (select 1 from person where role = 'owner' and id = any (named_persons()));

-- A question is seen by whose conversation it is, by whom it would run for, and by the owner. Who is
-- asked says yes; who is asked and the owner say no. The sub-selects are evaluated once a statement.
drop policy own_rows on approval;
create policy seen on approval for select using (
    (select current_setting('famulus.persons', true)) = '*'
    or person_id = any ((select named_persons())::uuid[])
    or actor_id = any ((select named_persons())::uuid[])
    or (select names_the_owner())
);
create policy asked on approval for insert with check (
    (select current_setting('famulus.persons', true)) = '*'
    or person_id = any ((select named_persons())::uuid[]) and state = 'pending'
);
create policy answered on approval for update using (
    (select current_setting('famulus.persons', true)) = '*'
    or person_id = any ((select named_persons())::uuid[])
    or actor_id = any ((select named_persons())::uuid[])
    or (select names_the_owner())
) with check (
    (select current_setting('famulus.persons', true)) = '*'
    or state not in ('approved', 'denied')
        and person_id = any ((select named_persons())::uuid[])
    or state in ('approved', 'denied') and asked = 'person'
        and actor_id = any ((select named_persons())::uuid[])
    or (state = 'denied' or state = 'approved' and asked = 'owner')
        and (select names_the_owner())
);
create policy forgotten on approval for delete using (
    (select current_setting('famulus.persons', true)) = '*'
    or person_id = any ((select named_persons())::uuid[])
);
