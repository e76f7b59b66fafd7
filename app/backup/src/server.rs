//! A database, as Postgres's own programs reach it.

use crate::error::BackupError;
use secrecy::{ExposeSecret, SecretString};
use std::path::PathBuf;
use tokio::process::Command;
use url::Url;

/// Where a database is, and the programs that fit it.
#[derive(Clone, Debug)]
pub struct Server {
    /// What libpq reads from the environment, but the password.
    variables: Vec<(&'static str, String)>,
    password: Option<SecretString>,
    /// The `bin` folder of a Postgres that is no older than the server.
    pub(crate) bin_dir: PathBuf,
    pub(crate) database: String,
}

/// What a URL may say behind its question mark, under each name that it may have, and what libpq calls it.
const SETTINGS: &[(&[&str], &str)] = &[
    (&["host", "hostaddr"], "PGHOST"),
    (&["port"], "PGPORT"),
    (&["sslmode", "ssl-mode"], "PGSSLMODE"),
    (&["sslrootcert", "ssl-root-cert", "ssl-ca"], "PGSSLROOTCERT"),
    (&["sslcert", "ssl-cert"], "PGSSLCERT"),
    (&["sslkey", "ssl-key"], "PGSSLKEY"),
];

impl Server {
    /// A database by its URL, with the password in it where it has one. The role must see all rows.
    ///
    /// # Errors
    /// It is no URL of a Postgres, or names no host or no database.
    pub fn new(url: &str, bin_dir: PathBuf) -> Result<Self, BackupError> {
        // Whatever is wrong with it, it holds a password.
        let url: Url = url.parse().map_err(|_| BackupError::Url { lacks: "the form of a URL" })?;
        let known = ["postgres", "postgresql"].contains(&url.scheme());
        let host = url.host_str().filter(|_| known).unwrap_or_default();
        let mut variables = vec![("PGHOST", decoded(host.trim_matches(['[', ']'])))];
        variables.extend(url.port().map(|port| ("PGPORT", port.to_string())));
        for (name, value) in url.query_pairs() {
            let variable = SETTINGS.iter().find(|(names, _)| names.contains(&&*name));
            if let Some((_, variable)) = variable {
                variables.retain(|(set, _)| set != variable);
                variables.push((variable, value.into_owned()));
            }
        }
        let database = decoded(url.path().trim_start_matches('/'));
        let has_host = variables.iter().any(|(name, value)| *name == "PGHOST" && !value.is_empty());
        for (there, lacks) in [
            (known, "postgres:// at its beginning"),
            (has_host, "a host"),
            (!url.username().is_empty(), "a user"),
            (!database.is_empty(), "a database"),
        ] {
            if !there {
                return Err(BackupError::Url { lacks });
            }
        }
        variables.push(("PGUSER", decoded(url.username())));
        let password = url.password().map(|password| SecretString::from(decoded(password)));
        Ok(Self { variables, password, bin_dir, database })
    }

    /// Tells a program where the database is. No other process sees the password: it is no argument.
    pub(crate) fn tell(&self, command: &mut Command) {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("PGDATABASE", &self.database);
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password.expose_secret());
        }
    }
}

/// A part of a URL, without the percent signs that stand for other bytes.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, more @ ..] = rest {
        let escaped = more.get(..2).filter(|_| *first == b'%');
        if let Some(byte) = escaped.and_then(|digits| hex::decode(digits).ok()) {
            bytes.extend(byte);
            rest = &more[2..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(url: &str) -> Vec<String> {
        let mut command = Command::new("true");
        Server::new(url, PathBuf::new()).unwrap().tell(&mut command);
        let told = command.as_std().get_envs();
        let mut told: Vec<String> = told
            .map(|(name, value)| format!("{}={}", name.display(), value.unwrap().display()))
            .collect();
        told.sort();
        told
    }

    #[test]
    fn a_program_is_told_what_the_url_says() {
        assert_eq!(
            told("postgres://postgres@localhost:5432/famulus?host=%2Fmy%20data%2Frun"),
            ["PGDATABASE=famulus", "PGHOST=/my data/run", "PGPORT=5432", "PGUSER=postgres"]
        );
        assert_eq!(
            told(
                "postgresql://a%40b:p%2Bw+%25%26%3d@db.home/x%20y?sslmode=verify-full\
                 &sslrootcert=/etc/ca.crt&application_name=z"
            ),
            [
                "PGDATABASE=x y",
                "PGHOST=db.home",
                "PGPASSWORD=p+w+%&=",
                "PGSSLMODE=verify-full",
                "PGSSLROOTCERT=/etc/ca.crt",
                "PGUSER=a@b",
            ]
        );
        assert_eq!(told("postgres://u@[::1]:1/d")[1], "PGHOST=::1");
    }

    #[test]
    fn what_is_no_url_of_a_database_is_refused_without_its_password() {
        for (url, lacks) in [
            ("u:secret@db/famulus", "a URL of a Postgres needs"),
            ("mysql://u:secret@db/famulus", "postgres://"),
            ("postgres://u:secret@db", "a database"),
            ("postgres://db/famulus", "a user"),
            ("postgres://u:secret@/famulus", "a URL of a Postgres needs"),
            ("postgres:///famulus", "a host"),
        ] {
            let error = Server::new(url, PathBuf::new()).unwrap_err().to_string();
            assert!(error.contains(lacks) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
