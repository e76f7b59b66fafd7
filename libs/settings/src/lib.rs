//! What a program in a cluster is told by its environment: variables that begin with its prefix, each
//! read once as what it must be.
//!
//! ```text
//! variables ──► Given::of ──► needed, or, list, with … ──► nothing_left
//! ```
//!
//! The crate refuses to know which settings there are and what follows from them.
//!
//! Invariants: a value that cannot be read is an error and never the default; so is a name that
//! nobody asked for, once [`Given::nothing_left`] was asked: a limit that was mistyped would not be
//! one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

/// Whose settings they are.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Every variable begins with it.
    pub prefix: &'static str,
    /// Where its settings are explained.
    pub manual: &'static str,
}

/// Why settings cannot be used. Names are those of the environment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name} is not set; see {manual}")]
    Missing { name: String, manual: &'static str },
    #[error("{name} is `{value}`; write {wanted}")]
    Wrong { name: String, value: String, wanted: &'static str },
    #[error(
        "{name} is `{value}`: the Service that it names did not exist when this Pod started; install \
         the Service, and delete the Pod"
    )]
    NoService { name: String, value: String },
    #[error("{0} is no setting; remove it, or correct its name")]
    Unknown(String),
}

impl Program {
    pub fn missing(self, name: &str) -> Error {
        Error::Missing { name: self.variable(name), manual: self.manual }
    }

    pub fn wrong(self, name: &str, value: String, wanted: &'static str) -> Error {
        Error::Wrong { name: self.variable(name), value, wanted }
    }

    fn variable(self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// Variables that were not read yet, without their prefix. `wanted` says what to write instead of a
/// value that cannot be read.
pub struct Given {
    program: Program,
    left: BTreeMap<String, String>,
}

impl Given {
    /// Takes what is the program's of the variables of a process.
    pub fn of(program: Program, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let ours = |(name, value): (OsString, OsString)| {
            let name = name.to_str()?.strip_prefix(program.prefix)?.to_owned();
            Some((name, value.to_string_lossy().into_owned()))
        };
        Self { program, left: variables.into_iter().filter_map(ours).collect() }
    }

    /// A value that `read` takes apart; `None` if it is not set.
    pub fn with<T>(
        &mut self,
        name: &str,
        wanted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.left.remove(name) else { return Ok(None) };
        // Kubernetes leaves a reference to a variable as it is where there is no such variable.
        if value.starts_with("$(") {
            return Err(Error::NoService { name: self.program.variable(name), value });
        }
        match read(&value) {
            Some(read) => Ok(Some(read)),
            None => Err(self.program.wrong(name, value, wanted)),
        }
    }

    pub fn read<T: FromStr>(
        &mut self,
        name: &str,
        wanted: &'static str,
    ) -> Result<Option<T>, Error> {
        self.with(name, wanted, |value| value.parse().ok())
    }

    pub fn or<T: FromStr>(
        &mut self,
        name: &str,
        otherwise: T,
        wanted: &'static str,
    ) -> Result<T, Error> {
        Ok(self.read(name, wanted)?.unwrap_or(otherwise))
    }

    pub fn needed<T: FromStr>(&mut self, name: &str, wanted: &'static str) -> Result<T, Error> {
        self.read(name, wanted)?.ok_or_else(|| self.program.missing(name))
    }

    /// Seconds, with places.
    pub fn seconds(&mut self, name: &str, otherwise: f64) -> Result<Duration, Error> {
        let seconds: f64 = self.or(name, otherwise, "a number of seconds")?;
        Ok(Duration::from_millis((seconds.clamp(0.0, 1e6) * 1000.0) as u64))
    }

    /// Values with `separator` between. An empty part is none.
    pub fn list<T: FromStr>(
        &mut self,
        name: &str,
        separator: char,
        wanted: &'static str,
    ) -> Result<Option<Vec<T>>, Error> {
        self.with(name, wanted, |value| {
            let parts = value.split(separator).map(str::trim).filter(|part| !part.is_empty());
            parts.map(|part| part.parse().ok()).collect()
        })
    }

    /// Settings of another program with the same prefix.
    pub fn pass_over(&mut self, names: &[&str]) {
        for name in names {
            self.left.remove(*name);
        }
    }

    pub fn nothing_left(self) -> Result<(), Error> {
        match self.left.into_keys().next() {
            Some(name) => Err(Error::Unknown(self.program.variable(&name))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(variables: &[(&str, &str)]) -> Given {
        let program = Program { prefix: "OUR_", manual: "the manual" };
        let all = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Given::of(program, all)
    }

    #[test]
    fn each_is_read_once_as_what_it_must_be() {
        let mut given = given(&[
            ("OUR_COUNT", "7"),
            ("OUR_HOSTS", "a, b,,c"),
            ("OUR_NONE", ""),
            ("OUR_PAUSE", "0.25"),
            ("OTHER_COUNT", "8"),
        ]);
        assert_eq!(given.needed::<u8>("COUNT", "a number").unwrap(), 7);
        assert_eq!(given.or("COUNT", 9, "a number").unwrap(), 9);
        let mut list = |name| given.list::<String>(name, ',', "names").unwrap();
        assert_eq!(list("HOSTS").unwrap(), ["a", "b", "c"]);
        assert_eq!((list("NONE"), list("HOSTS")), (Some(Vec::new()), None));
        assert_eq!(given.seconds("PAUSE", 1.0).unwrap(), Duration::from_millis(250));
        given.nothing_left().unwrap();
    }

    #[test]
    fn a_mistake_is_named() {
        let said = |result: Result<u8, Error>| result.unwrap_err().to_string();
        let mut given =
            given(&[("OUR_COUNT", "many"), ("OUR_PORT", "$(PORT)"), ("OUR_CONUT", "7")]);
        assert_eq!(said(given.or("COUNT", 1, "a number")), "OUR_COUNT is `many`; write a number");
        assert_eq!(said(given.needed("COUNT", "a number")), "OUR_COUNT is not set; see the manual");
        let no_service = "OUR_PORT is `$(PORT)`: the Service that it names did not exist when this Pod \
                          started; install the Service, and delete the Pod";
        assert_eq!(said(given.needed("PORT", "a port")), no_service);
        let unknown = "OUR_CONUT is no setting; remove it, or correct its name";
        assert_eq!(said(given.nothing_left().map(|()| 0)), unknown);
    }
}
