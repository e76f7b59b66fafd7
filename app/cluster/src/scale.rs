//! How many runners a Plugin wants: the one thing of it that the app writes. The operator does the rest.

use std::time::Duration;

use famulus_crds::plugin::Plugin;
use famulus_sandbox::ScaleError;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::plugin::CachedPlugin;

/// A write of one number.
const SCALE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(
        "the scale of the Plugin could not be written; see the rights of the app's ServiceAccount"
    )]
    Refused(#[source] kube::Error),
    #[error("the scale of the Plugin could not be written: the API server is silent")]
    Silent,
}

impl Cluster {
    /// Writes how many runners are wanted; with a version only if the Plugin is still of that one.
    pub(crate) async fn scale(
        &self,
        known: &CachedPlugin,
        replicas: i32,
        version: Option<&str>,
    ) -> Result<(), ScaleError> {
        let mut patch = json!({"spec": {"replicas": replicas}});
        if let Some(version) = version {
            patch["metadata"] = json!({"resourceVersion": version});
        }
        let plugins: Api<Plugin> = Api::namespaced(self.kube.clone(), &self.namespace);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let scaled = plugins.patch_scale(&known.object, &parameters, &patch);
        match timeout(SCALE, scaled).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                Err(ScaleError::Changed)
            }
            Ok(Err(error)) => Err(ScaleError::Refused(Box::new(WriteError::Refused(error)))),
            Err(_elapsed) => Err(ScaleError::Refused(Box::new(WriteError::Silent))),
        }
    }
}
