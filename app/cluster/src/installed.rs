//! The list of all plugins, as somebody needs it who deletes what belongs to none.
//!
//! It is asked for anew: what the watch has seen may lack a Plugin that it could not read.

use std::time::Duration;

use async_trait::async_trait;
use famulus_core::plugin::{InstalledPlugin, InstalledPlugins};
use famulus_core::sandbox::SandboxError;
use famulus_crds::plugin::Plugin;
use famulus_errors::chain;
use kube::Api;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use tokio::time::timeout;

use crate::cluster::Cluster;

/// The list of all Plugins, whose files may be in it.
const LIST: Duration = Duration::from_mins(1);

#[async_trait]
impl InstalledPlugins for Cluster {
    async fn installed(&self) -> Result<Vec<InstalledPlugin>, SandboxError> {
        let api: Api<DeserializeGuard<Plugin>> =
            Api::namespaced(self.kube.clone(), &self.namespace);
        let list = timeout(LIST, api.list(&ListParams::default())).await;
        let list = list.map_err(|_elapsed| {
            SandboxError::Away("the API server did not list the Plugins in time".to_owned())
        })?;
        let list = list.map_err(|error| SandboxError::Away(chain(&error)))?;
        list.items.into_iter().map(installed).collect()
    }
}

fn installed(plugin: DeserializeGuard<Plugin>) -> Result<InstalledPlugin, SandboxError> {
    let Plugin { spec, status, .. } = plugin.0.map_err(|broken| {
        let object = broken.metadata.name.unwrap_or_default();
        SandboxError::Away(format!(
            "the Plugin `{object}` cannot be read ({}); correct it with kubectl",
            broken.error
        ))
    })?;
    let (serving, offered) = status.map_or((None, None), |status| {
        (status.revision, status.offered.and_then(|offered| offered.revision))
    });
    Ok(InstalledPlugin {
        name: spec.name,
        in_use: [serving, spec.revision, offered].into_iter().flatten().collect(),
    })
}
