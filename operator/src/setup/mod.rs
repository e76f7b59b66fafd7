//! What an installation needs before the operator runs and after it has ended: `famulus-operator
//! bootstrap` and `famulus-operator retire`, which the chart runs as Jobs.
//!
//! Both may be repeated and may be cut off anywhere: a second run does what the first one left. They
//! have rights of their own, which the operator itself lacks.

pub mod bootstrap;
pub mod retire;

/// A variable of the environment that a Job was not given, or not in a form that can be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "the environment variable {name} is {what}; the chart sets it, so run this as its Job does"
)]
pub struct EnvironmentError {
    name: &'static str,
    what: String,
}

/// Reads the environment of a Job, which `main` hands over.
struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Environment<'_> {
    fn text(&self, name: &'static str) -> Result<String, EnvironmentError> {
        let value = (self.0)(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| EnvironmentError { name, what: "not set".to_owned() })
    }

    fn json<T: serde::de::DeserializeOwned>(
        &self,
        name: &'static str,
    ) -> Result<T, EnvironmentError> {
        serde_json::from_str(&self.text(name)?)
            .map_err(|error| EnvironmentError { name, what: format!("not readable ({error})") })
    }
}
