//! What tools send, to whoever asks or to somebody by their name.

use crate::{
    db::{Scope, Store},
    error::Error,
    idempotency,
    outbox::{Sending, send},
    reach::reached,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    blob::BlobRef,
    ids::PersonId,
    inbound::{Address, Attachment},
    post::{Letter, Post, PostError, Posted, Recipient},
    visible::file_name,
};
use famulus_queue::hint::Topic;
use sqlx::PgConnection;

/// Why a message was not sent, or what the database said.
enum Failure {
    Unfit(PostError),
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<PostError> for Failure {
    fn from(error: PostError) -> Self {
        Self::Unfit(error)
    }
}

#[async_trait]
impl Post for Store {
    async fn post(&self, letter: &Letter) -> Result<Posted, PostError> {
        self.put_letter(letter).await.map_err(|failure| match failure {
            Failure::Unfit(error) => error,
            Failure::Failed(error) => StoreError::from(error).into(),
        })
    }
}

/// Where a message goes, and to whom.
struct Found {
    to: Address,
    name: String,
    /// It is not for whoever sends it.
    is_others: bool,
}

impl Store {
    async fn put_letter(&self, letter: &Letter) -> Result<Posted, Failure> {
        let Letter { key, from, conversation, markdown, ways, .. } = letter;
        let mut tx = self.begin(Scope::Person(from.id)).await?;
        if let Some(earlier) = idempotency::take(&mut tx, from.id, *key).await? {
            return Ok(earlier);
        }
        // What is not sent leaves the key free: it goes with the transaction.
        let Found { to, name, is_others } = find(&mut tx, letter).await?;
        let attachments = enclosed(&mut tx, letter).await?;
        // Whoever gets it knows whose words they are: not ours, and not their own.
        let signed = format!("From {}:\n\n{markdown}", from.name);
        let sending = Sending {
            host: from.id,
            conversation: conversation.0,
            turn: key.turn,
            to: &to,
            markdown: if is_others { signed.trim_end() } else { markdown },
            attachments: &attachments,
        };
        send(&mut tx, &sending).await?;
        if ways.iter().any(|way| way.channel == to.channel && way.is_reply) {
            note_reached(&mut tx, letter, &to).await?;
        }
        let posted = Posted { channel: to.channel, to: name };
        idempotency::commit(tx, *key, &posted).await?;
        self.hints.announce(Topic::Delivery);
        Ok(posted)
    }
}

async fn find(conn: &mut PgConnection, letter: &Letter) -> Result<Found, Failure> {
    let from = &letter.from;
    let (id, name) = match &letter.to {
        Recipient::Here(to) => {
            let name = from.name.clone();
            return Ok(Found { to: to.clone(), name, is_others: false });
        }
        Recipient::Themselves => (from.id, from.name.clone()),
        Recipient::Other(name) => somebody(conn, letter, name).await?,
    };
    let to = reached(conn, &channels(letter), id)
        .await?
        .ok_or_else(|| PostError::NotReached { name: name.clone() })?;
    let is_others = id != from.id;
    if is_others && !letter.may_be_first && !was_written_to(conn, from.id, id).await? {
        return Err(PostError::First { name }.into());
    }
    Ok(Found { to, name, is_others })
}

/// Who is called so, or holds the account with this id.
async fn somebody(
    conn: &mut PgConnection,
    letter: &Letter,
    name: &str,
) -> Result<(PersonId, String), Failure> {
    let name = name.trim().to_owned();
    let rows = sqlx::query!(
        r#"select p.id, p.name, p.disabled_at is not null as "is_disabled!"
           from person p
           where lower(p.name) = lower($1)
               or exists (select 1 from identity i
                          where i.person_id = p.id and i.external_id = $1 and i.channel = any($2))
           order by p.id"#,
        name,
        &channels(letter),
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("find whom to send to"))?;
    match rows.as_slice() {
        [] => Err(PostError::Nobody { name }.into()),
        [one] if one.is_disabled => Err(PostError::Disabled { name: one.name.clone() }.into()),
        [one] => Ok((PersonId(one.id), one.name.clone())),
        _ => Err(PostError::Several { name }.into()),
    }
}

fn channels(letter: &Letter) -> Vec<String> {
    letter.ways.iter().map(|way| way.channel.clone()).collect()
}

/// Whether a message from the one to the other stands in the outbox.
async fn was_written_to(
    conn: &mut PgConnection,
    from: PersonId,
    to: PersonId,
) -> Result<bool, Error> {
    sqlx::query_scalar!(
        r#"select exists (
               select 1 from outbox o join identity i
                   on i.channel = o.address ->> 'channel' and i.account = o.address ->> 'account'
                       and i.chat = o.address ->> 'chat'
               where o.person_id = $1 and o.turn_id is not null and i.person_id = $2
           ) as "was_written_to!""#,
        from.0,
        to.0,
    )
    .fetch_one(conn)
    .await
    .map_err(Error::on("see whom somebody wrote to"))
}

/// The files, each of which begins to age anew: retention leaves it to the message.
async fn enclosed(conn: &mut PgConnection, letter: &Letter) -> Result<Vec<Attachment>, Failure> {
    let mut attachments = Vec::new();
    for file in &letter.files {
        let row = sqlx::query!(
            "update blob set created_at = now()
             where id = $1 and person_id = $2 and state = 'whole'
             returning sha256, mime, size",
            file.id.0,
            letter.from.id.0,
        )
        .fetch_optional(&mut *conn)
        .await
        .map_err(Error::on("find a file"))?;
        let row = row.ok_or(PostError::NoFile { id: file.id })?;
        attachments.push(Attachment {
            name: file_name(file.name.as_deref().unwrap_or_default()),
            blob: BlobRef {
                id: file.id,
                sha256: hex::encode(&row.sha256),
                mime: row.mime,
                size: row.size as u64,
            },
        });
    }
    Ok(attachments)
}

/// Notes that a tool reached this place: it gets no reply of the turn beside it.
async fn note_reached(conn: &mut PgConnection, letter: &Letter, to: &Address) -> Result<(), Error> {
    sqlx::query!(
        "insert into reached (turn_id, person_id, channel, account, chat)
         values ($1, $2, $3, $4, $5) on conflict do nothing",
        letter.key.turn.0,
        letter.from.id.0,
        to.channel,
        to.account,
        to.chat,
    )
    .execute(conn)
    .await
    .map_err(Error::on("note whom a tool reached"))?;
    Ok(())
}
