-- The door again (0002): two batches that open the same conversations wait for each other no longer,
-- and no plan depends on how many rows there were when a session made it.
--
-- A session keeps its plans, and a planner that knows nothing of a young table takes it for a few rows:
-- it then joins from the table to the batch instead of the other way round, and every batch goes
-- through all lanes until the first statistics come. `id = any (array(...))` has one plan only.

-- Ends waits now. Lanes that do not wait are left alone.
create or replace function wake_lanes(of_class text, lanes uuid[])
returns void language plpgsql as $$
begin
    with locked as (
        select id from queue_lane
        where class = of_class and id = any (lanes) and state = 'waiting'
        order by id for no key update
    )
    update queue_lane l set state = 'ready', due_at = now()
    where l.class = of_class and l.id = any (array(select id from locked));
end
$$;

-- Stores messages. Element n of every array belongs to message n, except for the two that pair
-- attachments with messages: file_of (n, from 1) and file_blob.
--
-- A batch of several opens its conversations by key and locks all of them by id before anything
-- else, and takes lanes by id at the end, so that two batches do not wait for each other. Message
-- keys are taken in between, in the order of the messages: batches that use the same keys for
-- different conversations may meet in a deadlock, which Postgres ends, and the loser comes again.
-- Plain statements in a loop, and not one over the whole batch: mostly there is one message, and
-- their plans are a third of the work.
--
-- One row for every message, in order: `outcome` is 'started', 'steered', 'duplicate',
-- 'key_reused', 'no_conversation' or 'no_attachment'; the last names the blob. Behind them one row
-- 'leased' for every turn that was leased at once, with its token.
create or replace function accept_messages(
    -- Whether each message may touch the rows of its own people only; else whatever the transaction
    -- may, as sweeps do.
    each_for_itself     boolean,
    -- Ids for what is made: the message, the turn that it may begin, the conversation it may open.
    new_message         uuid[],
    new_turn            uuid[],
    new_conversation    uuid[],
    -- Where it goes: an existing conversation, or the one of a key, which is opened if need be.
    to_conversation     uuid[],
    to_key              text[],
    host                uuid[],
    sender              uuid[],
    agent               uuid[],
    -- Whether it joins a running turn of its sender.
    may_steer           boolean[],
    said_by             text[],
    said_in             text[],
    reply_to            text[],
    by_schedule         uuid[],
    -- The key under which a repeat is known; its id is null for a message without one.
    key_channel         text[],
    key_account         text[],
    key_id              text[],
    key_hash            bytea[],
    part                bytea[],
    visible             text[],
    written_at          timestamptz[],
    file_of             bigint[],
    file_blob           uuid[],
    -- The worker beside the door, how many turns it would begin at once, and for how long.
    lessee              uuid,
    places              integer,
    lease               interval
)
returns table (
    outcome text, conversation uuid, message uuid, turn uuid, blob uuid, owner uuid, token bigint
)
language plpgsql as $$
#variable_conflict use_column
declare
    place   conversation;
    joins   boolean;
    known   bytea;
    started uuid[] := '{}';
    lanes   uuid[] := '{}';
    owners  uuid[] := '{}';
    steered uuid[] := '{}';
begin
    if cardinality(new_message) > 1 then
        if each_for_itself then
            perform set_config('famulus.persons', '*', true);
        end if;
        insert into conversation (id, key, person_id, agent_id)
        select distinct on (o.key) o.id, o.key, o.host, o.agent
        from unnest(new_conversation, to_key, host, agent) with ordinality
            as o (id, key, host, agent, place)
        where o.key is not null
            and not exists (select 1 from conversation c where c.key = o.key)
        order by o.key, o.place
        on conflict (key) do nothing;
        perform 1 from conversation c
        where c.id = any (array(
            select o.id from conversation o where o.id = any (to_conversation)
            union all
            select o.id from conversation o where o.key = any (to_key)
        ))
        order by c.id for no key update;
    end if;

    for n in 1 .. cardinality(new_message) loop
        outcome := null;
        conversation := null;
        message := null;
        turn := null;
        blob := null;
        if each_for_itself then
            perform set_config('famulus.persons', host[n] || ',' || sender[n], true);
        end if;

        -- The conversation is locked, and its next number taken, in one. The number of a message that
        -- is not stored is not given again.
        if to_key[n] is null then
            update conversation c set last_seq = c.last_seq + 1, updated_at = now()
            where c.id = to_conversation[n] and c.person_id in (host[n], sender[n])
            returning c.* into place;
        else
            update conversation c set last_seq = c.last_seq + 1, updated_at = now()
            where c.key = to_key[n] and c.person_id in (host[n], sender[n])
            returning c.* into place;
            if not found then
                insert into conversation (id, key, person_id, agent_id)
                values (new_conversation[n], to_key[n], host[n], agent[n])
                on conflict (key) do nothing;
                -- Somebody else may have opened it meanwhile.
                update conversation c set last_seq = c.last_seq + 1, updated_at = now()
                where c.key = to_key[n] and c.person_id in (host[n], sender[n])
                returning c.* into place;
            end if;
        end if;
        if not found then
            outcome := 'no_conversation';
            return next;
            continue;
        end if;

        if n = any (file_of) then
            -- The lock keeps retention away until the reference is committed.
            perform 1 from blob b
            where b.id = any (file_blob) and b.state = 'whole' order by b.id for key share;
            select f.blob into blob
            from unnest(file_of, file_blob) with ordinality as f (place, blob, nth)
            where f.place = n and not exists (
                select 1 from blob b where b.id = f.blob and b.state = 'whole'
                    and b.person_id in (host[n], sender[n])
            )
            order by f.nth limit 1;
            if blob is not null then
                outcome := 'no_attachment';
                return next;
                continue;
            end if;
        end if;

        if key_id[n] is not null then
            insert into inbox (channel, account, external_id, person_id, body_hash, message_id)
            values (key_channel[n], key_account[n], key_id[n], place.person_id, key_hash[n],
                    new_message[n])
            on conflict (channel, account, external_id) do nothing;
            if not found then
                select i.body_hash, m.conversation_id, m.id, m.turn_id
                into known, conversation, message, turn
                from inbox i join message m on m.id = i.message_id
                where i.channel = key_channel[n] and i.account = key_account[n]
                    and i.external_id = key_id[n] and m.person_id in (host[n], sender[n]);
                outcome := case
                    when found and known = key_hash[n] then 'duplicate' else 'key_reused' end;
                return next;
                continue;
            end if;
        end if;

        joins := coalesce(may_steer[n] and place.live_person = sender[n], false);
        if joins then
            turn := place.live_turn;
            steered := steered || place.id;
        else
            turn := new_turn[n];
            place.live_ord := place.last_seq;
            insert into turn (id, conversation_id, person_id, actor_id, agent_id, ord,
                              began_by, origin, schedule_id, state)
            values (new_turn[n], place.id, place.person_id, sender[n], place.agent_id,
                    place.last_seq, said_by[n], reply_to[n]::jsonb, by_schedule[n], 'queued');
            started := started || new_turn[n];
            lanes := lanes || place.id;
            owners := owners || place.person_id;
        end if;
        insert into message (id, conversation_id, person_id, sender_id, turn_id, turn_ord, seq,
                             role, source, external_id, provenance, parts, body, seen, sent_at)
        values (new_message[n], place.id, place.person_id, sender[n], turn, place.live_ord,
                place.last_seq, 'user', said_in[n]::jsonb, key_id[n], said_by[n], part[n],
                visible[n], not joins, written_at[n]);
        if n = any (file_of) then
            insert into message_blob (message_id, blob_id, person_id)
            select distinct new_message[n], f.blob, place.person_id
            from unnest(file_of, file_blob) as f (place, blob) where f.place = n;
        end if;
        outcome := case when joins then 'steered' else 'started' end;
        conversation := place.id;
        message := new_message[n];
        return next;
    end loop;

    if cardinality(started) > 0 then
        return query
        select 'leased', e.leased, null::uuid, started[array_position(lanes, e.leased)],
               null::uuid, owners[array_position(lanes, e.leased)], e.token
        from enqueue_jobs('turn', started, lanes, owners, lessee, places, lease) e;
    end if;
    if cardinality(steered) > 0 then
        perform wake_lanes('turn', steered);
    end if;
end
$$;
