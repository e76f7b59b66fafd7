//! What can be configured of backups.

use crate::{retention::Rules, seal::Recipient};
use secrecy::SecretString;
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf};
use url::Url;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `backups` in the data directory, unless it is set.
    pub folder: Option<PathBuf>,
    /// Instead of a folder.
    pub s3: Option<S3>,
    pub recipient: Option<Recipient>,
    pub identity_file: Option<PathBuf>,
    /// By the channels' names: daemons beside which somebody gives what they keep.
    pub channels: BTreeMap<String, Held>,
    /// 0: none is taken unless somebody asks for it.
    pub every_hours: u32,
    /// Whether one is taken before a newer release changes the database.
    pub before_updates: bool,
    /// Hours after which one is restored again to see whether it can be; 0: only when asked.
    pub verify_every_hours: u32,
    /// Hours without a backup after which a server on a database that others back up says so; 0: never.
    pub overdue_hours: u32,
    pub keep_hourly: u32,
    pub keep_daily: u32,
    pub keep_monthly: u32,
    pub keep_yearly: Option<u32>,
}

/// Who gives what a daemon keeps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    pub url: Url,
    pub key_file: PathBuf,
}

/// A bucket of a store that speaks S3.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3 {
    pub bucket: String,
    /// What the names of all objects begin with, up to a slash.
    #[serde(default)]
    pub prefix: String,
    /// The store, if it is not Amazon's: `https://host`.
    pub endpoint: Option<Url>,
    #[serde(default = "region")]
    pub region: String,
    pub access_key_id: String,
    pub secret_access_key: Option<SecretString>,
    /// Certificates, in PEM, that the store is trusted by besides those of the machine.
    pub ca_file: Option<PathBuf>,
}

fn region() -> String {
    "us-east-1".to_owned()
}

impl Default for Config {
    fn default() -> Self {
        let Rules { hourly, daily, monthly, yearly } = Rules::default();
        Self {
            folder: None,
            s3: None,
            recipient: None,
            identity_file: None,
            channels: BTreeMap::new(),
            every_hours: 24,
            before_updates: true,
            verify_every_hours: 168,
            overdue_hours: 0,
            keep_hourly: hourly,
            keep_daily: daily,
            keep_monthly: monthly,
            keep_yearly: yearly,
        }
    }
}

impl Config {
    pub fn rules(&self) -> Rules {
        Rules {
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            monthly: self.keep_monthly,
            yearly: self.keep_yearly,
        }
    }
}
