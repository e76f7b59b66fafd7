//! Reading the configuration, and saying what is wrong with it.

use super::{
    Cluster, Config, Database, KEYS, MachinePlugins, SecretError, Turns, Values,
    keys::join,
    secret::{self, Read, SecretRef},
};
use famulus_telemetry::Redactor;
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

/// What the file and the environment say: every key exists, and every value is of its kind. Secrets
/// are still references, so that who needs none can do without them.
#[derive(Debug)]
pub struct Loaded {
    tree: Dict,
    pub data_dir: Option<PathBuf>,
    pub turns: Turns,
    pub telemetry: famulus_telemetry::Config,
    pub plugins: MachinePlugins,
    pub cluster: Option<Cluster>,
}

/// Reads the file (when there is one) and the environment over it.
///
/// # Errors
/// The file cannot be read, a key does not exist, or a value is not of its kind.
pub fn load(file: Option<&Path>) -> Result<Loaded, ConfigError> {
    let mut figment = Figment::new();
    if let Some(path) = file {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        figment = figment.merge(Toml::string(&text));
    }
    let env = Env::prefixed(PREFIX)
        .filter(|name| name == "data_dir" || name.as_str().contains("__"))
        .split("__");
    let mut tree = merge(&figment.merge(env), file)?;
    take_database_url(&mut tree);
    Loaded::from_tree(tree)
}

impl Loaded {
    fn from_tree(tree: Dict) -> Result<Self, ConfigError> {
        let Config { data_dir, turns, telemetry, plugins, cluster, .. } =
            extract(tree.clone(), &mut |_, _| Ok(None))?;
        Ok(Self { tree, data_dir, turns, telemetry, plugins, cluster })
    }

    /// Everything, each secret in its place and known to the redactor.
    ///
    /// # Errors
    /// A secret cannot be read.
    pub fn with_secrets(&self, redactor: &Redactor) -> Result<Config, ConfigError> {
        extract(self.tree.clone(), &mut |key, reference| {
            let text = reference.read(key)?;
            secret::hide(redactor, &text);
            Ok(Some(text))
        })
    }

    /// What each key says, secrets included.
    ///
    /// # Errors
    /// A secret cannot be read.
    pub fn values(&self) -> Result<Values, ConfigError> {
        let mut tree = self.tree.clone();
        secret::replace("", &mut tree, &mut |key, reference| reference.read(key).map(Some))?;
        Ok(Values::of(&tree))
    }

    /// The section `database`, for those to whom the other secrets are not given.
    ///
    /// # Errors
    /// The secret cannot be read.
    pub fn database(&self, redactor: &Redactor) -> Result<Database, ConfigError> {
        Ok(self.section("database", redactor)?.database)
    }

    /// The section `backup`, in the same way.
    ///
    /// # Errors
    /// The secret cannot be read.
    pub fn backup(&self, redactor: &Redactor) -> Result<famulus_backup::Config, ConfigError> {
        Ok(self.section("backup", redactor)?.backup)
    }

    fn section(&self, wanted: &str, redactor: &Redactor) -> Result<Config, ConfigError> {
        let mut tree = self.tree.clone();
        tree.retain(|section, _| section == wanted);
        let alone = Self { tree, ..Self::from_tree(Dict::new())? };
        alone.with_secrets(redactor)
    }
}

/// The merged tree, once every key of it is known.
fn merge(figment: &Figment, file: Option<&Path>) -> Result<Dict, ConfigError> {
    let tree = figment
        .data()
        .map_err(|error| wrong(&error))?
        .remove(&Profile::Default)
        .unwrap_or_default();
    let mut paths = Vec::new();
    leaves("", &tree, &mut paths);
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
    Ok(tree)
}

/// Names `DATABASE_URL` where it is set and the configuration names no database.
fn take_database_url(tree: &mut Dict) {
    const NAME: &str = "DATABASE_URL";
    let is_set = SecretRef::Env(NAME.to_owned()).read("database.url").is_ok();
    let section = tree.entry("database".to_owned()).or_insert_with(|| Value::from(Dict::new()));
    if let Value::Dict(_, section) = section
        && !section.contains_key("url")
        && is_set
    {
        let reference = Dict::from([("env".to_owned(), Value::from(NAME))]);
        section.insert("url".to_owned(), Value::from(reference));
    }
}

/// The components' structs, after `read` has said what each secret is.
fn extract(mut tree: Dict, read: &mut Read<'_>) -> Result<Config, ConfigError> {
    secret::replace("", &mut tree, read)?;
    Value::from(tree).deserialize().map_err(|error| wrong(&error))
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
        let path = join(prefix, name);
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
    use secrecy::{ExposeSecret as _, SecretString};

    fn figment(text: &str) -> Figment {
        Figment::new().merge(Toml::string(text))
    }

    fn toml(text: &str) -> Result<Config, ConfigError> {
        extract(merge(&figment(text), None)?, &mut |_, _| Ok(None))
    }

    #[test]
    fn an_empty_configuration_is_a_good_one() {
        let config = toml("").unwrap();
        assert_eq!(config.turns, Turns::default());
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
    fn every_secret_is_read_and_told_to_the_redactor() {
        let folder = tempfile::tempdir().unwrap();
        let secret = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("sesame-of-{name}\n")).unwrap();
            format!("{{ file = '{}' }}", path.display())
        };
        let text = format!(
            "model.api_key = {}\nmodel.headers.X-Title = {}\ndatabase.url = {}\n\
             channels.http.webhook_secret = {}\nchannels.telegram.token = {}\n\
             backup.s3 = {{ bucket = 'b', access_key_id = 'a', secret_access_key = {} }}\n",
            secret("model"),
            secret("header"),
            secret("database"),
            secret("webhook"),
            secret("telegram"),
            secret("s3")
        );
        let loaded = Loaded::from_tree(merge(&figment(&text), None).unwrap()).unwrap();
        let redactor = Redactor::default();
        let read = |secret: Option<SecretString>| secret.unwrap().expose_secret().to_owned();

        let told = |redactor: &Redactor, name: &str| {
            redactor.redact(&format!("a sesame-of-{name}.")) == "a [redacted]."
        };

        assert_eq!(read(loaded.database(&redactor).unwrap().url), "sesame-of-database");
        assert!(told(&redactor, "database"));
        let s3 = loaded.backup(&redactor).unwrap().s3.unwrap();
        assert_eq!(read(s3.secret_access_key), "sesame-of-s3");
        assert!(told(&redactor, "s3") && !told(&redactor, "model"));
        let redactor = Redactor::default();
        let Config { model, database, channels, .. } = loaded.with_secrets(&redactor).unwrap();
        let all = [
            ("model", model.api_key),
            ("header", model.headers.get("X-Title").cloned()),
            ("database", database.url),
            ("webhook", channels.http.webhook_secret),
            ("telegram", channels.telegram.token),
        ];
        for (name, secret) in all {
            assert_eq!(read(secret), format!("sesame-of-{name}"));
            assert!(told(&redactor, name), "{name}");
        }

        // A file that is gone stops only those who need what stood in it.
        folder.close().unwrap();
        let error = loaded.with_secrets(&redactor).unwrap_err().to_string();
        assert!(error.contains("cannot be read; check the path"), "{error}");
        assert!(Loaded::from_tree(merge(&figment(&text), None).unwrap()).is_ok());
    }

    /// [`KEYS`] and the components' structs agree: where one has a secret, so has the other.
    #[test]
    fn a_reference_in_the_file_is_a_secret_in_the_struct() {
        let headers = ["model", "transcription", "speech"]
            .map(|section| format!("[{section}.headers]\nX-Title.env = \"TITLE\"\n"));
        let text = format!("{}\n{}", uncommented(), headers.concat());
        let mut secrets = 0;
        let config = extract(merge(&figment(&text), None).unwrap(), &mut |_, _| {
            secrets += 1;
            Ok(Some("sesame".to_owned()))
        });
        let shown = format!("{:?}", config.unwrap());
        assert!(!shown.contains("sesame"), "{shown}");
        assert_eq!(shown.matches("[REDACTED]").count(), secrets, "{shown}");
        let references =
            KEYS.iter().filter(|key| key.path.rsplit('.').next() == Some("env")).count();
        assert_eq!(secrets, references);
    }

    const EXAMPLE: &str = include_str!("../../../../config/config.example.toml");

    fn uncommented() -> String {
        let lines = EXAMPLE.lines().map(|line| line.strip_prefix("#= ").unwrap_or(line));
        lines.fold(String::new(), |all, line| all + line + "\n")
    }

    /// The line of a key, in its own section.
    fn line_of(path: &str) -> Option<&'static str> {
        let (wanted, name) = path.rsplit_once('.').unwrap_or(("", path));
        let mut section = "";
        EXAMPLE.lines().find(|line| {
            let line = line.trim_start_matches("#= ");
            if let Some(header) = line.strip_prefix('[') {
                section = header.split(']').next().unwrap();
            }
            section == wanted && line.starts_with(&format!("{name} = "))
        })
    }

    #[test]
    fn the_example_names_every_key_and_is_read_whole() {
        let tree = merge(&figment(&uncommented()), None).unwrap();
        let mut paths = Vec::new();
        leaves("", &tree, &mut paths);
        extract(tree, &mut |_, _| Ok(None)).unwrap();
        for key in KEYS
            .iter()
            .filter(|key| key.path.rsplit('.').next() != Some("file") || key.path.contains('*'))
        {
            // A reference is there with what it names.
            let reference = format!("{}.env", key.path);
            assert!(
                KEYS.iter().any(|other| other.path == reference)
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
            let line = line_of(path).unwrap_or_else(|| panic!("no line for {path}"));
            assert!(
                line.contains(&format!("[{word}]")),
                "{path} should be marked [{word}]: {line}"
            );
        }
    }
}
