//! Variables of the environment, each read once as what it must be.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::SettingsError;

/// Every variable begins with it.
pub(super) const PREFIX: &str = "FAMULUS_RUNNER_";

pub(super) const SECONDS: &str = "a number of seconds";
pub(super) const NUMBER: &str = "a number";
pub(super) const FOLDER: &str = "a folder";
pub(super) const SWITCH: &str = "true or false";

/// Variables that were not read yet, without their prefix.
pub(super) struct Given(BTreeMap<String, String>);

impl Given {
    pub(super) fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let ours = |(name, value): (OsString, OsString)| {
            let name = name.to_str()?.strip_prefix(PREFIX)?.to_owned();
            Some((name, value.to_string_lossy().into_owned()))
        };
        Self(variables.into_iter().filter_map(ours).collect())
    }

    pub(super) fn read<T: FromStr>(
        &mut self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<Option<T>, SettingsError> {
        let Some(value) = self.0.remove(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| SettingsError::Wrong { name, value, wanted })
    }

    pub(super) fn or<T: FromStr>(
        &mut self,
        name: &'static str,
        otherwise: T,
        wanted: &'static str,
    ) -> Result<T, SettingsError> {
        Ok(self.read(name, wanted)?.unwrap_or(otherwise))
    }

    pub(super) fn needed<T: FromStr>(
        &mut self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<T, SettingsError> {
        self.read(name, wanted)?.ok_or(SettingsError::Missing(name))
    }

    /// Seconds, with places.
    pub(super) fn seconds(
        &mut self,
        name: &'static str,
        otherwise: f64,
    ) -> Result<Duration, SettingsError> {
        let seconds: f64 = self.or(name, otherwise, SECONDS)?;
        Ok(Duration::from_millis((seconds.clamp(0.0, 1e6) * 1000.0) as u64))
    }

    /// A list with `separator` between.
    pub(super) fn list<T: FromStr>(
        &mut self,
        name: &'static str,
        separator: char,
        wanted: &'static str,
    ) -> Result<Vec<T>, SettingsError> {
        let Some(value) = self.0.remove(name) else { return Ok(Vec::new()) };
        let parts = value.split(separator).map(str::trim).filter(|part| !part.is_empty());
        let read: Result<Vec<T>, _> = parts.map(str::parse).collect();
        read.map_err(|_wrong| SettingsError::Wrong { name, value, wanted })
    }

    pub(super) fn folders(
        &mut self,
        name: &'static str,
    ) -> Result<Option<Vec<PathBuf>>, SettingsError> {
        let value: Option<String> = self.read(name, "folders with `:` between")?;
        let split = |value: String| {
            value.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect()
        };
        Ok(value.map(split))
    }

    pub(super) fn pass_over(&mut self, names: &[&str]) {
        for name in names {
            self.0.remove(*name);
        }
    }

    pub(super) fn nothing_left(self) -> Result<(), SettingsError> {
        match self.0.into_keys().next() {
            Some(name) => Err(SettingsError::Unknown(name)),
            None => Ok(()),
        }
    }
}
