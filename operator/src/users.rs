//! User ids for the sandbox, one for each Plugin.
//!
//! The kernel counts processes by user, and files belong to one: two Plugins never share one. An id
//! follows from the Plugin's UID where it is free, and is noted on its ServiceAccount and claim.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

pub struct Users {
    range: RangeInclusive<i64>,
    /// User to the UID of its Plugin. Held for single lookups only.
    taken: Mutex<BTreeMap<i64, String>>,
}

impl Users {
    pub fn new(range: RangeInclusive<i64>) -> Self {
        Self { range, taken: Mutex::new(BTreeMap::new()) }
    }

    /// Notes who has an id already. Called for all before the first one is given away.
    pub fn note(&self, user: i64, plugin: &str) {
        let mut taken = self.taken.lock();
        taken.entry(user).or_insert_with(|| plugin.to_owned());
    }

    /// The id of a Plugin: that which was noted, or the next free one behind what its UID says.
    /// None, when all are taken.
    pub fn of(&self, plugin: &str, noted: Option<i64>) -> Option<i64> {
        let mut taken = self.taken.lock();
        let is_free = |user: &i64, taken: &BTreeMap<i64, String>| {
            taken.get(user).is_none_or(|owner| owner == plugin)
        };
        let (first, last) = (*self.range.start(), *self.range.end());
        let count = last - first + 1;
        let start = first + (hash(plugin) % count as u64) as i64;
        let mut candidates =
            noted.into_iter().filter(|user| *user > 0).chain(start..=last).chain(first..start);
        let user = candidates.find(|user| is_free(user, &taken))?;
        taken.insert(user, plugin.to_owned());
        Some(user)
    }

    /// The Plugin is gone: its id may be another's.
    pub fn free(&self, plugin: &str) {
        let mut taken = self.taken.lock();
        taken.retain(|_, owner| owner != plugin);
    }
}

fn hash(plugin: &str) -> u64 {
    let digest = Sha256::digest(plugin.as_bytes());
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_shares_an_id_and_everybody_keeps_it() {
        let users = Users::new(1000..=1002);
        let one = users.of("one", None).unwrap();
        let two = users.of("two", None).unwrap();
        let three = users.of("three", None).unwrap();
        let mut all = [one, two, three];
        all.sort_unstable();
        assert_eq!(all, [1000, 1001, 1002]);
        assert_eq!(users.of("four", None), None);
        assert_eq!(users.of("two", None).map(|_| ()), Some(()));
        users.free("two");
        assert_eq!(users.of("four", None), Some(two));
    }

    #[test]
    fn what_was_noted_stays_also_outside_of_the_range_and_is_nobody_elses() {
        let users = Users::new(1000..=1999);
        assert_eq!(users.of("one", Some(77)), Some(77));
        assert_ne!(users.of("two", Some(77)), Some(77));
        users.note(1500, "three");
        assert_ne!(users.of("four", Some(1500)), Some(1500));
        assert_eq!(users.of("three", Some(1500)), Some(1500));
        assert_eq!(users.of("five", Some(0)).map(|user| user >= 1000), Some(true));
    }
}
