//! Who sees to one plugin, `weather`, which has one key.

use async_trait::async_trait;
use famulus_core::{
    StoreError,
    plugin::{
        Change, Granted, ManageError, ManagedPlugins, Offer, PluginEvent, PluginSource, Unmanaged,
    },
};
use parking_lot::Mutex;
use serde_json::Value;

/// Nothing but configuring is asked of it.
const REST: Unmanaged = Unmanaged("nobody asks for it here");

/// A value that was set: of which plugin, which key, and by whom.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set {
    pub(crate) plugin: String,
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) who: String,
}

#[derive(Default)]
pub(crate) struct Managed {
    pub(crate) set: Mutex<Vec<Set>>,
    /// What the next call meets.
    pub(crate) fails: Mutex<Option<StoreError>>,
}

#[async_trait]
impl ManagedPlugins for Managed {
    async fn configure(
        &self,
        name: &str,
        key: &str,
        value: Option<Value>,
        who: &str,
    ) -> Result<(), ManageError> {
        if let Some(error) = self.fails.lock().take() {
            return Err(error.into());
        }
        if name != "weather" {
            return Err(ManageError::NoPlugin(name.to_owned()));
        }
        let value = value.unwrap_or_default();
        match key {
            "api_key" => {
                let (plugin, key, who) = (name.to_owned(), key.to_owned(), who.to_owned());
                self.set.lock().push(Set { plugin, key, value, who });
                Ok(())
            }
            // It is told which value it was.
            "port" => Err(ManageError::Invalid(format!("{value} is no number of a port"))),
            _ => Err(ManageError::Invalid("`weather` has no such key".to_owned())),
        }
    }

    async fn install(
        &self,
        name: Option<&str>,
        source: PluginSource,
        who: &str,
    ) -> Result<Offer, ManageError> {
        REST.install(name, source, who).await
    }

    async fn update(&self, name: &str, change: Change, who: &str) -> Result<Offer, ManageError> {
        REST.update(name, change, who).await
    }

    async fn permit(&self, name: &str, granted: Granted, who: &str) -> Result<(), ManageError> {
        REST.permit(name, granted, who).await
    }

    async fn roll_back(
        &self,
        name: &str,
        revision: Option<&str>,
        who: &str,
    ) -> Result<String, ManageError> {
        REST.roll_back(name, revision, who).await
    }

    async fn remove(&self, name: &str) -> Result<(), ManageError> {
        REST.remove(name).await
    }

    async fn history(&self, name: &str) -> Result<Vec<PluginEvent>, ManageError> {
        REST.history(name).await
    }

    async fn offer_of(&self, name: &str) -> Result<Option<Offer>, ManageError> {
        REST.offer_of(name).await
    }

    async fn source(&self, name: &str) -> Result<PluginSource, ManageError> {
        REST.source(name).await
    }
}
