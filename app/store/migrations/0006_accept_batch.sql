-- The door again (0002, 0004): a batch is one array of messages, and no longer one array for each of
-- their fields. What happens is what happened, but that each message keeps its own reply address.
--
-- The release before calls accept_messages, which stays. A type has the shape that the release which
-- made it sends, so a later shape is a type, and a function, of another name.

-- Where the reply to the message goes; null where an older release stored it, which kept the first
-- message's address in the turn alone.
alter table message add column reply_to jsonb;

create type inbound as (
    -- Ids for what is made: the message, the turn that it may begin, the conversation it may open.
    new_message         uuid,
    new_turn            uuid,
    new_conversation    uuid,
    -- Where it goes: an existing conversation, or the one of a key, which is opened if need be.
    to_conversation     uuid,
    to_key              text,
    host                uuid,
    sender              uuid,
    agent               uuid,
    -- Whether it joins a running turn of its sender.
    may_steer           boolean,
    said_by             text,
    said_in             text,
    reply_to            text,
    by_schedule         uuid,
    -- The key under which a repeat is known; its id is null for a message without one.
    key_channel         text,
    key_account         text,
    key_id              text,
    key_hash            bytea,
    part                bytea,
    visible             text,
    written_at          timestamptz,
    -- Its attachments, in their order.
    files               uuid[]
);

-- Stores messages.
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
create function accept_batch(
    -- Whether each message may touch the rows of its own people only; else whatever the transaction
    -- may, as sweeps do.
    each_for_itself     boolean,
    batch               inbound[],
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
    it      inbound;
    place   conversation;
    joins   boolean;
    known   bytea;
    started uuid[] := '{}';
    lanes   uuid[] := '{}';
    owners  uuid[] := '{}';
    steered uuid[] := '{}';
begin
    if cardinality(batch) > 1 then
        if each_for_itself then
            perform set_config('famulus.persons', '*', true);
        end if;
        insert into conversation (id, key, person_id, agent_id)
        select distinct on (o.to_key) o.new_conversation, o.to_key, o.host, o.agent
        from unnest(batch) with ordinality o
        where o.to_key is not null
            and not exists (select 1 from conversation c where c.key = o.to_key)
        order by o.to_key, o.ordinality
        on conflict (key) do nothing;
        perform 1 from conversation c
        where c.id = any (array(
            select o.id from conversation o where o.id = any (array(select b.to_conversation from unnest(batch) b))
            union all
            select o.id from conversation o where o.key = any (array(select b.to_key from unnest(batch) b))
        ))
        order by c.id for no key update;
    end if;

    foreach it in array batch loop
        outcome := null;
        conversation := null;
        message := null;
        turn := null;
        blob := null;
        if each_for_itself then
            perform set_config('famulus.persons', it.host || ',' || it.sender, true);
        end if;

        -- The conversation is locked, and its next number taken, in one. The number of a message that
        -- is not stored is not given again.
        if it.to_key is null then
            update conversation c set last_seq = c.last_seq + 1, updated_at = now()
            where c.id = it.to_conversation and c.person_id in (it.host, it.sender)
            returning c.* into place;
        else
            update conversation c set last_seq = c.last_seq + 1, updated_at = now()
            where c.key = it.to_key and c.person_id in (it.host, it.sender)
            returning c.* into place;
            if not found then
                insert into conversation (id, key, person_id, agent_id)
                values (it.new_conversation, it.to_key, it.host, it.agent)
                on conflict (key) do nothing;
                -- Somebody else may have opened it meanwhile.
                update conversation c set last_seq = c.last_seq + 1, updated_at = now()
                where c.key = it.to_key and c.person_id in (it.host, it.sender)
                returning c.* into place;
            end if;
        end if;
        if not found then
            outcome := 'no_conversation';
            return next;
            continue;
        end if;

        if cardinality(it.files) > 0 then
            -- The lock keeps retention away until the reference is committed.
            perform 1 from blob b
            where b.id = any (it.files) and b.state = 'whole' order by b.id for key share;
            select f.blob into blob
            from unnest(it.files) with ordinality as f (blob, nth)
            where not exists (
                select 1 from blob b where b.id = f.blob and b.state = 'whole'
                    and b.person_id in (it.host, it.sender)
            )
            order by f.nth limit 1;
            if blob is not null then
                outcome := 'no_attachment';
                return next;
                continue;
            end if;
        end if;

        if it.key_id is not null then
            insert into inbox (channel, account, external_id, person_id, body_hash, message_id)
            values (it.key_channel, it.key_account, it.key_id, place.person_id, it.key_hash,
                    it.new_message)
            on conflict (channel, account, external_id) do nothing;
            if not found then
                select i.body_hash, m.conversation_id, m.id, m.turn_id
                into known, conversation, message, turn
                from inbox i join message m on m.id = i.message_id
                where i.channel = it.key_channel and i.account = it.key_account
                    and i.external_id = it.key_id and m.person_id in (it.host, it.sender);
                outcome := case
                    when found and known = it.key_hash then 'duplicate' else 'key_reused' end;
                return next;
                continue;
            end if;
        end if;

        joins := coalesce(it.may_steer and place.live_person = it.sender, false);
        if joins then
            turn := place.live_turn;
            steered := steered || place.id;
        else
            turn := it.new_turn;
            place.live_ord := place.last_seq;
            insert into turn (id, conversation_id, person_id, actor_id, agent_id, ord,
                              began_by, origin, schedule_id, state)
            values (it.new_turn, place.id, place.person_id, it.sender, place.agent_id,
                    place.last_seq, it.said_by, it.reply_to::jsonb, it.by_schedule, 'queued');
            started := started || it.new_turn;
            lanes := lanes || place.id;
            owners := owners || place.person_id;
        end if;
        insert into message (id, conversation_id, person_id, sender_id, turn_id, turn_ord, seq,
                             role, source, external_id, provenance, parts, body, seen, sent_at,
                             reply_to)
        values (it.new_message, place.id, place.person_id, it.sender, turn, place.live_ord,
                place.last_seq, 'user', it.said_in::jsonb, it.key_id, it.said_by, it.part,
                it.visible, not joins, it.written_at, it.reply_to::jsonb);
        if cardinality(it.files) > 0 then
            insert into message_blob (message_id, blob_id, person_id)
            select distinct it.new_message, f.blob, place.person_id
            from unnest(it.files) as f (blob);
        end if;
        outcome := case when joins then 'steered' else 'started' end;
        conversation := place.id;
        message := it.new_message;
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
