//! `/configure`: the owner gives a key of a plugin its value where they write.
//!
//! ```text
//! a platform told it ─► not stored ─► the owner's? carried out ─► deleted there ─► answered
//!                                  └► anybody else's: stored without what stands behind the word
//! ```
//!
//! The value may be secret. It goes to whoever sees to plugins, and nowhere else.

use crate::arrive::{answer_key, caller, command_in};
use crate::{Arrivals, Door, Outcome, Reception, words};
use famulus_core::{
    StoreError,
    configure::Assignment,
    inbound::{ChatKind, Command},
    intake::{Listener, Written},
    person::Caller,
    plugin::{ManageError, value_of},
};
use famulus_lifecycle::boxed;

/// Characters of a value from which on it stands in other words by no accident.
const TELLING: usize = 4;

impl Reception {
    /// Gives a key of a plugin its value, for the owner.
    pub(crate) async fn configure(
        &self,
        caller: &Caller,
        asked: Option<Assignment>,
    ) -> Result<Outcome, StoreError> {
        if !caller.is_owner() {
            return Ok(Outcome::NotTheOwners);
        }
        let Some(Assignment { plugin, key, value }) = asked else { return Ok(Outcome::Malformed) };
        let (text, who) = (value.expose(), caller.person.name.as_str());
        match self.managed.configure(&plugin, &key, Some(value_of(text)), who).await {
            Ok(()) => Ok(Outcome::Configured { plugin, key }),
            Err(ManageError::Store(error)) => Err(error),
            Err(
                error @ (ManageError::Unsupported(_)
                | ManageError::NoPlugin(_)
                | ManageError::Taken(_)
                | ManageError::Invalid(_)
                | ManageError::Edit(_)
                | ManageError::Failed { .. }),
            ) => {
                let why = error.to_string();
                // Whoever refuses a value may say which one it was.
                let tells = text.chars().count() >= TELLING && why.contains(text);
                Ok(Outcome::NotConfigured(if tells { words::REFUSED.to_owned() } else { why }))
            }
        }
    }
}

impl Arrivals {
    /// Obeys `/configure` of the owner, as the platform told it and before anything of it is stored. Whether
    /// it is done, and nothing is left to be stored. Of anybody else, and of what is no command, it is not.
    ///
    /// # Errors
    /// The database did not answer: the same may be taken again.
    #[boxed]
    pub async fn configure(
        &self,
        door: &Door,
        written: &Written,
        platform: &dyn Listener,
    ) -> Result<bool, StoreError> {
        let is_own = written.forwarded.is_none() && written.edits.is_none();
        let Some(Command::Configure(asked)) = command_in(written).filter(|_| is_own) else {
            return Ok(false);
        };
        if written.chat.kind == ChatKind::Group {
            return Ok(false);
        }
        let known = self.identities.whose(&door.channel, &door.account, &written.from.id).await?;
        let Some(known) = known.filter(|known| !known.is_disabled) else { return Ok(false) };
        let caller = caller(door, &known);
        if !caller.is_owner() {
            return Ok(false);
        }
        let key = answer_key(door, written);
        // The process died before the platform knew that it was heard.
        if self.tell.told(&key).await? {
            return Ok(true);
        }
        self.identities.seen(known.identity, &written.chat.id).await?;
        let answer = self.configured(&caller, written, platform, asked).await?;
        self.tell.tell(&key, &written.reply, Some(caller.person.id), &answer).await?;
        Ok(true)
    }

    /// What whoever wrote it is answered. The message of the owner is deleted, whatever became of it: what
    /// stands in it may be the secret.
    pub(crate) async fn configured(
        &self,
        caller: &Caller,
        written: &Written,
        platform: &dyn Listener,
        asked: Option<Assignment>,
    ) -> Result<String, StoreError> {
        let outcome = match self.reception.configure(caller, asked).await {
            // Taken again it would be refused again, and hold up what comes behind it.
            Err(error @ StoreError::Refused(_)) => {
                tracing::error!(%error, "a key of a plugin was not set");
                Outcome::NotConfigured(words::UNSTORED.to_owned())
            }
            other => other?,
        };
        if outcome == Outcome::NotTheOwners {
            return Ok(outcome.to_string());
        }
        let deleted = match platform.delete(written).await {
            Ok(()) => words::DELETED,
            Err(error) => {
                tracing::debug!(%error, "a message with a value was not deleted");
                words::NOT_DELETED
            }
        };
        Ok(format!("{outcome} {deleted}"))
    }
}
