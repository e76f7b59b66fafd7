//! What viewers read: stored events, where a stream begins, and how a person's lists stand.

use crate::{
    codec::decode,
    db::{Scope, Store},
    error::Error,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    event::{Envelope, EventId},
    event_table::{Cursor, EventTable, ListMarks, RecentConversation},
    ids::{ConversationId, PersonId},
};

/// Conversations of a person that are looked at, the last used first.
const RECENT: i64 = 50;

#[async_trait]
impl EventTable for Store {
    async fn events_after(
        &self,
        cursors: &[Cursor],
        limit: i64,
    ) -> Result<Vec<Envelope>, StoreError> {
        let people: Vec<PersonId> = cursors.iter().map(|cursor| cursor.person).collect();
        let mut tx = self.begin_relaxed(Scope::Persons(&people)).await?;
        let rows = sqlx::query_scalar!(
            r#"
            select e.data
            from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[])
                as c (person, conversation, fence, number)
            cross join lateral (
                select data, fence, number from event
                where conversation_id = c.conversation and person_id = c.person
                    and (fence, number) > (c.fence, c.number)
                order by fence, number limit $5
            ) e
            order by c.conversation, e.fence, e.number
            "#,
            &cursors.iter().map(|c| c.person.0).collect::<Vec<_>>(),
            &cursors.iter().map(|c| c.conversation.0).collect::<Vec<_>>(),
            &cursors.iter().map(|c| c.after.fence).collect::<Vec<_>>(),
            &cursors.iter().map(|c| c.after.number).collect::<Vec<_>>(),
            limit,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read events"))?;
        tx.commit().await.map_err(Error::on("read events"))?;
        Ok(rows.iter().map(|data| decode("an event", data)).collect::<Result<_, _>>()?)
    }

    async fn stream_start(
        &self,
        person: PersonId,
        conversation: ConversationId,
        after: Option<EventId>,
    ) -> Result<(EventId, bool), StoreError> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let row = sqlx::query!(
            r#"
            select
                g.shown_fence as "gone_fence?", g.shown_number as "gone_number?",
                l.fence as "last_fence?", l.number as "last_number?",
                v.fence as "live_fence?", v.number as "live_number?"
            from (select 1) one
            left join lateral (select turn_id from event where conversation_id = $1
                order by fence, number limit 1) f on true
            -- Of the turns before the first that has events, the one that showed most. Only the
            -- latest are looked at: the others showed less, or nothing.
            left join lateral (
                select shown_fence, shown_number from (
                    select t.shown_fence, t.shown_number from turn t
                    where t.conversation_id = $1 and t.ended_at is not null
                        and (f.turn_id is null
                             or t.ord < (select k.ord from turn k where k.id = f.turn_id))
                    order by t.ord desc limit 100
                ) latest
                order by shown_fence desc, shown_number desc limit 1) g on true
            left join lateral (select fence, number, turn_id from event where conversation_id = $1
                order by fence desc, number desc limit 1) l on true
            -- Also of a turn that is asked to stop, which goes on for a moment.
            left join turn t on t.id = l.turn_id and t.ended_at is null
            left join lateral (
                select fence, number from event where conversation_id = $1 and turn_id = t.id
                order by fence, number limit 1) v on true
            "#,
            conversation.0,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::on("find the stream's start"))?;
        tx.commit().await.map_err(Error::on("find the stream's start"))?;
        let id = |fence: Option<i64>, number: Option<i64>| {
            fence.zip(number).map(|(fence, number)| EventId { fence, number })
        };
        let gone = id(row.gone_fence, row.gone_number);
        let last = id(row.last_fence, row.last_number);
        let live = id(row.live_fence, row.live_number);
        Ok(match after {
            Some(after) => {
                // What a turn showed last is followed by the event of its end.
                let missed = gone.is_some_and(|gone| gone > EventId::START && gone >= after);
                (after, missed && after > EventId::START)
            }
            None => match (live, last) {
                (Some(live), _) => (EventId { number: live.number - 1, ..live }, false),
                (None, Some(last)) => (last, false),
                (None, None) => (EventId::START, false),
            },
        })
    }

    async fn recent(&self, person: PersonId) -> Result<Vec<RecentConversation>, StoreError> {
        let conversations = self.conversations(person, None, RECENT).await?;
        Ok(conversations
            .into_iter()
            .map(|view| RecentConversation {
                conversation: view.id,
                last_seq: view.last_seq,
                live: view.live.map(|(turn, _)| turn),
            })
            .collect())
    }

    async fn list_marks(&self, person: PersonId) -> Result<ListMarks, StoreError> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let marks = sqlx::query_as!(
            ListMarks,
            r#"select
                   (select concat(count(*), ' ', max(created_at)) from approval
                    where state = 'pending') as "approvals!",
                   (select concat(sum(hashtextextended(s::text, 0))) from schedule s
                    where person_id = $1) as "schedules!",
                   (select concat(count(*), ' ', max(updated_at)) from knowledge
                    where person_id = $1) as "knowledge!""#,
            person.0,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::on("look at lists"))?;
        tx.commit().await.map_err(Error::on("look at lists"))?;
        Ok(marks)
    }
}
