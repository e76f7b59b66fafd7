//! Where what channels hear is taken in, whoever hears it.

use famulus_channels::Rules;
use famulus_reception::{Arrivals, Door};
use famulus_store::MAIN_AGENT;
use std::collections::BTreeMap;

#[derive(Clone)]
pub(crate) struct Intake {
    pub(crate) arrivals: Arrivals,
    /// Of each channel that hears.
    pub(crate) rules: BTreeMap<String, Rules>,
    /// Bytes of a file, and of all files of a person within a day.
    pub(crate) file_bytes: u64,
    pub(crate) day_bytes: u64,
}

impl Intake {
    /// What holds for an account of ours; nothing where no channel of this name hears.
    pub(crate) fn door(&self, channel: &str, account: &str) -> Option<Door> {
        let rules = self.rules.get(channel)?;
        Some(Door {
            channel: channel.to_owned(),
            account: account.to_owned(),
            access: rules.access,
            listed: rules.allow.clone(),
            owner_acts: rules.owner_acts.0,
            file_bytes: self.file_bytes,
            day_bytes: self.day_bytes,
            waits_for_files: true,
            agent: MAIN_AGENT,
        })
    }
}
