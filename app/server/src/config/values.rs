//! What each key says, by digest: enough to see what has changed, and too little to read a secret.

use super::{KEYS, Takes, keys::join};
use figment::value::{Dict, Value};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// The keys that were said, each with the digest of its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<String, [u8; 32]>);

impl Values {
    /// Of a tree with its secrets in place.
    pub(super) fn of(tree: &Dict) -> Self {
        let mut values = Self::default();
        values.add("", tree);
        values
    }

    fn add(&mut self, prefix: &str, tree: &Dict) {
        for (name, value) in tree {
            let path = join(prefix, name);
            if let Value::Dict(_, inner) = value {
                self.add(&path, inner);
            } else {
                // A tree that was read from text and numbers can be written as such.
                let text = serde_json::to_vec(value).unwrap_or_default();
                self.0.insert(path, Sha256::digest(text).into());
            }
        }
    }

    /// The keys that say something else in `now`, and when that takes effect.
    pub fn changed(&self, now: &Self) -> Vec<(String, Takes)> {
        let paths: BTreeSet<&String> = self.0.keys().chain(now.0.keys()).collect();
        paths
            .into_iter()
            .filter(|path| self.0.get(*path) != now.0.get(*path))
            .map(|path| (path.clone(), takes(path)))
            .collect()
    }
}

/// A secret stands where its reference stood.
fn takes(path: &str) -> Takes {
    let reference = join(path, "env");
    let key = KEYS.iter().find(|key| key.covers(path) || key.covers(&reference));
    key.map_or(Takes::Restart, |key| key.takes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use figment::{
        Figment, Profile, Provider as _,
        providers::{Format as _, Toml},
    };

    fn values(text: &str) -> Values {
        let tree = Figment::new().merge(Toml::string(text)).data().unwrap();
        Values::of(&tree[&Profile::Default])
    }

    #[test]
    fn a_change_is_named_with_when_it_takes_effect() {
        let before = "data_dir = '/a'\n[turns]\nmodel_retries = 3\n[model.headers]\nX-A = 'one'";
        let check = |after: &str, want: &[(&str, Takes)]| {
            let changed = values(before).changed(&values(after));
            let changed: Vec<_> =
                changed.iter().map(|(path, takes)| (path.as_str(), *takes)).collect();
            assert_eq!(changed, want, "{after}");
        };
        check(before, &[]);
        check(
            "data_dir = '/b'\n[turns]\nmodel_retries = 4\n[model.headers]\nX-A = 'two'",
            &[
                ("data_dir", Takes::Restart),
                ("model.headers.X-A", Takes::Live),
                ("turns.model_retries", Takes::Live),
            ],
        );
        check(
            "[turns]\nmodel_retries = 3\n[model.headers]\nX-A = 'one'\n[channels.http]\nwebhook_secret = 'x'",
            &[("channels.http.webhook_secret", Takes::Restart), ("data_dir", Takes::Restart)],
        );
        assert!(!format!("{:?}", values("model.api_key = 'sesame'")).contains("sesame"));
    }
}
