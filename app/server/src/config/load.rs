//! Reading the configuration, and saying what is wrong with it.

use super::{Config, KEYS, SecretError};
use figment::{
    Figment, Profile, Provider,
    providers::{Env, Format, Toml},
    value::{Dict, Value},
};
use std::path::{Path, PathBuf};

/// Sections and keys that may come from the environment, as `FAMULUS_SECTION__KEY`.
const PREFIX: &str = "FAMULUS_";

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the configuration file {} cannot be read; check the path and its permissions", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{origin} has the key `{key}`, which does not exist{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey { key: String, origin: String, nearest: Option<String> },
    #[error("the configuration is wrong{}: {reason}", key.as_ref().map(|k| format!(" at `{k}`")).unwrap_or_default())]
    Wrong { key: Option<String>, reason: String },
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// Reads the file (when there is one) and the environment over it.
///
/// # Errors
/// The file cannot be read, a key does not exist, or a value is not of its kind.
pub fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
    let mut figment = Figment::new();
    if let Some(path) = file {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        figment = figment.merge(Toml::string(&text));
    }
    let env = Env::prefixed(PREFIX)
        .filter(|name| name == "data_dir" || name.as_str().contains("__"))
        .split("__");
    read(&figment.merge(env), file)
}

fn read(figment: &Figment, file: Option<&Path>) -> Result<Config, ConfigError> {
    let values = figment
        .data()
        .map_err(|error| wrong(&error))?
        .remove(&Profile::Default)
        .unwrap_or_default();
    let mut paths = Vec::new();
    leaves("", &values, &mut paths);
    for path in paths {
        if !KEYS.iter().any(|key| key.covers(&path)) {
            let origin = figment
                .find_metadata(&path)
                .map(|meta| meta.name.to_string())
                .filter(|name| name.contains("environment"))
                .map_or_else(|| describe(file), |_| format!("the environment ({PREFIX}…)"));
            return Err(ConfigError::UnknownKey { nearest: nearest(&path), origin, key: path });
        }
    }
    figment.extract().map_err(|error| wrong(&error))
}

fn describe(file: Option<&Path>) -> String {
    file.map_or_else(|| "the configuration".to_owned(), |path| path.display().to_string())
}

fn wrong(error: &figment::Error) -> ConfigError {
    let key = error.path.join(".");
    ConfigError::Wrong {
        key: (!key.is_empty()).then_some(key),
        reason: error.kind.to_string().replace('\n', " "),
    }
}

fn leaves(prefix: &str, values: &Dict, paths: &mut Vec<String>) {
    for (name, value) in values {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Dict(_, inner) if !inner.is_empty() => leaves(&path, inner, paths),
            Value::String(..)
            | Value::Char(..)
            | Value::Bool(..)
            | Value::Num(..)
            | Value::Empty(..)
            | Value::Dict(..)
            | Value::Array(..) => paths.push(path),
        }
    }
}

/// The known key that looks most like this one, if any does.
fn nearest(path: &str) -> Option<String> {
    KEYS.iter()
        .map(|key| (strsim::jaro_winkler(path, key.path), key.path))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, path)| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> Result<Config, ConfigError> {
        read(&Figment::new().merge(Toml::string(text)), None)
    }

    #[test]
    fn an_empty_configuration_is_a_good_one() {
        let config = toml("").unwrap();
        assert_eq!(config.turns, super::super::Turns::default());
        assert!(config.model.base_url.is_none());
        let famulus_api::Config { listen, internal_listen, callback_listen, canary_listen, .. } =
            config.api;
        assert!(listen.ip().is_loopback() && internal_listen.ip().is_loopback());
        assert_ne!(listen, internal_listen);
        assert_eq!((callback_listen, canary_listen), (None, None));
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        let check = |text: &str, expected: &str| {
            assert_eq!(toml(text).unwrap_err().to_string(), expected);
        };
        check(
            "[model]\nbase_ulr = \"http://x/v1\"",
            "the configuration has the key `model.base_ulr`, which does not exist; did you mean `model.base_url`?",
        );
        check(
            "[turns]\napproval_second = 5",
            "the configuration has the key `turns.approval_second`, which does not exist; did you mean `turns.approval_seconds`?",
        );
        check("zzz = 1", "the configuration has the key `zzz`, which does not exist");
    }

    #[test]
    fn a_wrong_value_names_its_key() {
        let error = toml("[turns]\nconcurrency = \"many\"").unwrap_err().to_string();
        assert!(error.contains("`turns.concurrency`"), "{error}");
        let error = toml("[model]\napi_key = \"sk-123\"").unwrap_err().to_string();
        assert!(error.contains("model.api_key"), "{error}");
        assert!(!error.contains("sk-123"), "a secret written in place is not repeated: {error}");
    }

    #[test]
    fn the_example_names_every_key_and_is_read_whole() {
        let example = include_str!("../../../../config/config.example.toml");
        let uncommented: String = example
            .lines()
            .map(|line| line.strip_prefix("#= ").unwrap_or(line))
            .fold(String::new(), |all, line| all + line + "\n");
        let figment = Figment::new().merge(Toml::string(&uncommented));
        read(&figment, None).unwrap();
        let mut paths = Vec::new();
        let values = figment.data().unwrap().remove(&Profile::Default).unwrap();
        leaves("", &values, &mut paths);
        for key in KEYS
            .iter()
            .filter(|key| key.path.rsplit('.').next() != Some("file") || key.path.contains('*'))
        {
            assert!(
                key.path.ends_with("api_key")
                    || key.path.ends_with("database.url")
                    || key.path.contains("headers")
                    || paths.iter().any(|path| key.covers(path)),
                "`{}` is missing in config.example.toml",
                key.path
            );
        }
        for path in &paths {
            let key = KEYS.iter().find(|key| key.covers(path)).unwrap();
            let word = match key.takes {
                super::super::Takes::Live => "live",
                super::super::Takes::Restart => "restart",
            };
            // A reference stands on the line of the secret that it names.
            let path = path.trim_end_matches(".env").trim_end_matches(".file");
            let name = path.rsplit('.').next().unwrap();
            let line = example
                .lines()
                .find(|line| line.trim_start_matches("#= ").starts_with(name))
                .unwrap_or_else(|| panic!("no line for {path}"));
            assert!(
                line.contains(&format!("[{word}]")),
                "{path} should be marked [{word}]: {line}"
            );
        }
    }
}
