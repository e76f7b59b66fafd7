//! The choice of a provider: the configured endpoint, or the demo model.

use crate::config::{Config, ConfigError};
use crate::demo::Demo;
use crate::openai::OpenAi;
use famulus_core::model::{Model, ModelError, ModelRequest, ModelStream};
use futures::{StreamExt as _, stream};
use std::sync::Arc;
use tokio::sync::watch;

/// Sends each request to the provider that it names.
///
/// `demo` always means the demo model, so that an installation can be tried out whatever else is
/// configured. Every other name, and none, goes to the endpoint if there is one.
pub struct Models {
    chosen: watch::Sender<Chosen>,
}

/// What a configuration describes.
#[derive(Clone)]
struct Chosen {
    endpoint: Option<OpenAi>,
    demo: Demo,
}

impl Models {
    /// Builds what the configuration describes; reaches nothing yet.
    pub fn from_config(config: Config) -> Result<Arc<Self>, ConfigError> {
        Ok(Arc::new(Self { chosen: watch::Sender::new(Chosen::from_config(config)?) }))
    }

    /// From the next request on, what this configuration describes. Requests that run end as they
    /// began.
    ///
    /// # Errors
    /// The configuration describes no provider; the one before stays in force.
    pub fn change(&self, config: Config) -> Result<(), ConfigError> {
        self.chosen.send_replace(Chosen::from_config(config)?);
        Ok(())
    }
}

impl Chosen {
    fn from_config(config: Config) -> Result<Self, ConfigError> {
        let demo = Demo::new(&config.demo);
        let endpoint = match (&config.base_url, &config.name) {
            (Some(_), _) => Some(OpenAi::new(config)?),
            (None, None) => None,
            (None, Some(name)) if name == Demo::NAME => None,
            (None, Some(name)) => {
                return Err(ConfigError::BaseUrlMissing { section: "model", name: name.clone() });
            }
        };
        Ok(Self { endpoint, demo })
    }
}

impl Model for Models {
    fn provider(&self) -> &'static str {
        let chosen = self.chosen.borrow();
        chosen.endpoint.as_ref().map_or_else(|| chosen.demo.provider(), Model::provider)
    }

    fn hears(&self, model: Option<&str>, mime: &str) -> bool {
        let chosen = self.chosen.borrow();
        match &chosen.endpoint {
            Some(endpoint) if model != Some(Demo::NAME) => endpoint.hears(model, mime),
            Some(_) | None => chosen.demo.hears(model, mime),
        }
    }

    fn ask(&self, request: ModelRequest) -> ModelStream {
        let Chosen { endpoint, demo } = self.chosen.borrow().clone();
        match (request.model.as_deref(), endpoint) {
            (Some(Demo::NAME), _) | (None, None) => demo.ask(request),
            (_, Some(endpoint)) => endpoint.ask(request),
            (Some(name), None) => {
                let error = ModelError::Unknown { name: name.to_owned() };
                stream::iter([Err(error)]).boxed()
            }
        }
    }
}
