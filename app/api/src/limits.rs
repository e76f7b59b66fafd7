//! Token buckets by key, in bounded memory.

use parking_lot::Mutex;
use std::{collections::HashMap, hash::Hash, time::Duration};
use tokio::time::Instant;

/// Keys that are remembered at once. Beyond that, those that are full again are forgotten, and then
/// whichever has been longest without a request.
const KEYS: usize = 10_000;

/// Lets a number of requests through at once and then so many in a time, for each key.
pub(crate) struct Limiter<K> {
    burst: f64,
    per_second: f64,
    buckets: Mutex<HashMap<K, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl<K: Eq + Hash + Clone> Limiter<K> {
    /// Lets `burst` through at once, and `count` in `per`, in the long run.
    pub(crate) fn new(burst: u32, count: u32, per: Duration) -> Self {
        Self {
            burst: f64::from(burst.max(1)),
            per_second: f64::from(count.max(1)) / per.as_secs_f64(),
            buckets: Mutex::new(HashMap::new()),
        }
    }

    /// Takes one place.
    ///
    /// # Errors
    /// The seconds after which there is one.
    pub(crate) fn take(&self, key: &K, now: Instant) -> Result<(), u32> {
        let mut buckets = self.buckets.lock();
        if !buckets.contains_key(key) && buckets.len() >= KEYS {
            self.forget(&mut buckets, now);
        }
        let bucket = buckets.entry(key.clone()).or_insert(Bucket { left: self.burst, at: now });
        *bucket = self.filled(*bucket, now);
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        Err(((1.0 - bucket.left) / self.per_second).ceil().max(1.0) as u32)
    }

    /// Whether there is a place, without taking it.
    pub(crate) fn check(&self, key: &K, now: Instant) -> Result<(), u32> {
        let buckets = self.buckets.lock();
        match buckets.get(key).map(|bucket| self.filled(*bucket, now).left) {
            Some(left) if left < 1.0 => {
                Err(((1.0 - left) / self.per_second).ceil().max(1.0) as u32)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn filled(&self, bucket: Bucket, now: Instant) -> Bucket {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        Bucket { left: (bucket.left + passed * self.per_second).min(self.burst), at: now }
    }

    fn forget(&self, buckets: &mut HashMap<K, Bucket>, now: Instant) {
        buckets.retain(|_, bucket| self.filled(*bucket, now).left < self.burst);
        if buckets.len() < KEYS {
            return;
        }
        let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.at).map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            buckets.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let limiter = Limiter::new(3, 60, Duration::from_mins(1));
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(limiter.check(&1, start), Ok(()));
            assert_eq!(limiter.take(&1, start), Ok(()));
        }
        assert_eq!(limiter.check(&1, start), Err(1));
        assert_eq!(limiter.take(&1, start), Err(1));
        assert_eq!(limiter.take(&2, start), Ok(()), "keys do not share");
        let later = start + Duration::from_secs(2);
        assert_eq!(limiter.take(&1, later), Ok(()));
        assert_eq!(limiter.take(&1, later), Ok(()));
        assert_eq!(limiter.take(&1, later), Err(1));
    }

    #[test]
    fn keys_are_forgotten_when_there_are_too_many() {
        let limiter = Limiter::new(2, 1, Duration::from_mins(1));
        let start = Instant::now();
        for key in 0..KEYS + 10 {
            assert_eq!(limiter.take(&key, start), Ok(()));
        }
        assert!(limiter.buckets.lock().len() <= KEYS);
    }
}
