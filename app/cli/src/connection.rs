//! Which server, and with which token.
//!
//! The token comes from a file or from what the environment gave to the program; never from an
//! address or an argument, which other processes and logs can read.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::error::Error;

/// Where `famulus up` listens unless it is told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:3000";

/// The options that every command of this crate takes.
#[derive(Clone, Debug, clap::Args)]
pub struct ConnectionArgs {
    /// Address of the server
    #[arg(long, env = "FAMULUS_URL", default_value = DEFAULT_URL, global = true)]
    pub url: String,
    /// File that holds the token [default: FAMULUS_TOKEN, else the one that `famulus up` made]
    #[arg(long, value_name = "FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// Print without colours
    #[arg(
        long,
        env = "NO_COLOR",
        hide_env = true,
        global = true,
        value_parser = clap::builder::FalseyValueParser::new()
    )]
    pub no_color: bool,
}

/// What the program that embeds the commands knows of its surroundings.
#[derive(Clone, Debug)]
pub struct CliEnvironment {
    /// The value of `FAMULUS_TOKEN`.
    pub token: Option<SecretString>,
    /// The file in which the first start keeps the token.
    pub token_file: PathBuf,
    /// Holds the history of the prompt.
    pub data_dir: PathBuf,
}

/// Everything a command needs to talk to a server.
#[derive(Clone, Debug)]
pub struct Connection {
    pub url: String,
    pub token: TokenSource,
    pub data_dir: PathBuf,
    pub colour: bool,
}

/// Where the token is.
#[derive(Clone, Debug)]
pub enum TokenSource {
    /// `FAMULUS_TOKEN`.
    Environment(SecretString),
    File(PathBuf),
}

impl Connection {
    /// `--token-file` goes before `FAMULUS_TOKEN`, and that before the file of the first start.
    pub fn new(args: ConnectionArgs, home: CliEnvironment) -> Self {
        let given = home.token.filter(|token| !token.expose_secret().is_empty());
        let token = match (args.token_file, given) {
            (Some(file), _) => TokenSource::File(file),
            (None, Some(token)) => TokenSource::Environment(token),
            (None, None) => TokenSource::File(home.token_file),
        };
        Self { url: args.url, token, data_dir: home.data_dir, colour: !args.no_color }
    }

    /// The address, checked: http or https, a host, perhaps a path, and nothing else.
    pub(crate) fn address(&self) -> Result<Url, Error> {
        let parsed = Url::parse(&self.url);
        let carries_more = match &parsed {
            Ok(url) => {
                !url.username().is_empty()
                    || url.password().is_some()
                    || url.query().is_some()
                    || url.fragment().is_some()
            }
            // Not repeated in the message: whatever it is, there may be a token in it.
            Err(_) => self.url.contains(['@', '?', '#']),
        };
        match parsed {
            _ if carries_more => Err(Error::CredentialInAddress),
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
            Ok(_) | Err(_) => Err(Error::Address { given: self.url.clone() }),
        }
    }
}

impl TokenSource {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Environment(_) => "FAMULUS_TOKEN".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// Reads the token and checks that it can be sent in a header.
    pub(crate) fn read(&self) -> Result<SecretString, Error> {
        let text = match self {
            Self::Environment(token) => token.expose_secret().to_owned(),
            Self::File(path) => read_file(path)?,
        };
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::TokenShape { origin: self.describe() });
        }
        Ok(SecretString::from(token))
    }
}

/// A token is short: what is longer is another file.
const LONGEST_TOKEN_FILE: u64 = 4096;

fn read_file(path: &Path) -> Result<String, Error> {
    let read = || {
        use std::io::Read as _;
        let mut text = String::new();
        std::fs::File::open(path)?.take(LONGEST_TOKEN_FILE).read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(|source| Error::ReadToken { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(url: &str) -> Connection {
        Connection {
            url: url.to_owned(),
            token: TokenSource::Environment("t".into()),
            data_dir: PathBuf::new(),
            colour: false,
        }
    }

    #[test]
    fn an_address_is_only_an_address() {
        let check = |url: &str, expected: &str| {
            let found = match connection(url).address() {
                Ok(url) => url.to_string(),
                Err(error) => format!("{error:?}"),
            };
            assert!(found.starts_with(expected), "{url} gave {found}");
        };
        check("http://127.0.0.1:3000", "http://127.0.0.1:3000/");
        check("https://home.example/famulus/", "https://home.example/famulus/");
        check("localhost:3000", "Address");
        check("ftp://home.example", "Address");
        check("", "Address");
        check("http://user:secret@home.example", "CredentialInAddress");
        check("http://secret@home.example", "CredentialInAddress");
        check("http://home.example/?token=secret", "CredentialInAddress");
        check("http://home.example/#secret", "CredentialInAddress");
        check("//secret@home", "CredentialInAddress");
    }

    #[test]
    fn a_refused_address_is_not_repeated() {
        let error = connection("http://a:secret@b").address().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    #[test]
    fn the_token_is_taken_from_the_nearest_source() {
        let check = |file: Option<&str>, token: Option<&str>, expected: &str| {
            let args = ConnectionArgs {
                url: DEFAULT_URL.to_owned(),
                token_file: file.map(PathBuf::from),
                no_color: false,
            };
            let home = CliEnvironment {
                token: token.map(SecretString::from),
                token_file: PathBuf::from("/data/token"),
                data_dir: PathBuf::from("/data"),
            };
            assert_eq!(Connection::new(args, home).token.describe(), expected);
        };
        check(Some("/mine"), Some("t"), "/mine");
        check(None, Some("t"), "FAMULUS_TOKEN");
        check(None, Some(""), "/data/token");
        check(None, None, "/data/token");
    }

    #[test]
    fn a_token_file_is_trimmed_and_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let check = |content: &str, expected: Option<&str>| {
            std::fs::write(&path, content).unwrap();
            let read = TokenSource::File(path.clone()).read();
            assert_eq!(read.ok().as_ref().map(ExposeSecret::expose_secret), expected);
        };
        check("fam_abc\n", Some("fam_abc"));
        check("", None);
        check("two words", None);
        check("a\r\nX-Other: b", None);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(TokenSource::File(path).read(), Err(Error::ReadToken { .. })));
    }
}
