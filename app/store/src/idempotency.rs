//! Writes inside this database that happen once for their key, whoever repeats them.
//!
//! The key is taken first: a repeat at the same time waits for the outcome, a later one reads what
//! was returned. If the transaction fails, the key is free again.

use crate::{
    codec::{decode, encode},
    db::Tx,
    error::Error,
};
use famulus_core::{crash, ids::PersonId, tool::CallKey};
use serde::{Serialize, de::DeserializeOwned};

/// Takes the key for this transaction; `Some` is what an earlier one returned.
pub(crate) async fn take<T: DeserializeOwned>(
    tx: &mut Tx,
    person: PersonId,
    key: CallKey,
) -> Result<Option<T>, Error> {
    let name = key.to_string();
    let taken = sqlx::query!(
        "insert into effect (key, person_id, result) values ($1, $2, '') on conflict do nothing",
        name,
        person.0,
    )
    .execute(&mut **tx)
    .await
    .map_err(Error::on("take the call's key"))?;
    if taken.rows_affected() == 1 {
        return Ok(None);
    }
    let result = sqlx::query_scalar!("select result from effect where key = $1", name)
        .fetch_one(&mut **tx)
        .await
        .map_err(Error::on("read what the call returned"))?;
    decode("the result of a call", &result).map(Some)
}

/// Keeps what the write returned, and commits it with the write.
pub(crate) async fn commit<T: Serialize>(
    mut tx: Tx,
    key: CallKey,
    result: &T,
) -> Result<(), Error> {
    sqlx::query!(
        "update effect set result = $2 where key = $1",
        key.to_string(),
        encode("the result of a call", result)?,
    )
    .execute(&mut *tx)
    .await
    .map_err(Error::on("keep what the call returned"))?;
    crash::before("effect.commit");
    tx.commit().await.map_err(Error::on("keep what the call did"))?;
    crash::after("effect.commit");
    Ok(())
}
