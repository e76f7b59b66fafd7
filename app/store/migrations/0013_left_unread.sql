-- What a turn that failed or was stopped leaves unread: what joined it, moved nowhere yet, and stands
-- behind every reply that was recorded. What was accepted before a stop ended with it.
create function left_unread(of_turn uuid) returns table (message uuid, seq bigint)
language sql stable as $$
    select m.id, m.seq
    from turn t
    join message m on m.conversation_id = t.conversation_id and m.turn_ord = t.ord
        and m.turn_id = t.id
    where t.id = of_turn and t.state in ('failed', 'cancelled')
        and m.role = 'user' and m.seq <> m.turn_ord and m.moved_from is null
        and (t.cancel_requested_at is null or m.created_at > t.cancel_requested_at)
        and (not m.seen or not exists (
            select 1 from message r
            where r.conversation_id = m.conversation_id and r.turn_ord = m.turn_ord
                and r.turn_id = m.turn_id and r.role = 'assistant' and r.model is not null
                and r.seq > m.seq))
$$;
