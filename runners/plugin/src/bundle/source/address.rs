//! Addresses of repositories: what may be fetched from where.
//!
//! A URL is taken apart once and git is given what was put together from the parts, so that nothing
//! reaches it which was not looked at: no option, no other transport, no user, no other host. The
//! host is resolved here, and git connects to that address and to no other.

use std::net::IpAddr;

use famulus_netguard::first_private;
use tokio::net::lookup_host;
use url::{Host, Url};

use crate::bundle::Failure;

/// The transports there are, with their ports.
const SCHEMES: [(&str, u16); 4] = [("https", 443), ("http", 80), ("git", 9418), (SSH, PORT_OF_SSH)];
const SSH: &str = "ssh";
const PORT_OF_SSH: u16 = 22;

/// What git asks a web server for.
const SERVICE: &str = "service=git-upload-pack";

/// A repository that may be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    pub(super) scheme: &'static str,
    /// As it is written in a URL.
    pub(super) host: String,
    pub(super) port: u16,
    /// Whom ssh signs in as; its own choice if nobody is named.
    user: Option<String>,
    /// Begins with a slash, unless it is of ssh and begins in the user's folder there.
    path: String,
}

/// A repository with the address that its host has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResolvedRepository {
    pub(super) repository: Repository,
    pub(super) address: IpAddr,
}

impl Repository {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let refuse = |what: &str| {
            Failure::unreachable(format!(
                "the address `{}` {what}; write it like https://example.org/weather.git",
                text.escape_debug()
            ))
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('\\') {
            return Err(refuse("holds characters that an address has not"));
        }
        if let Some(short) = ShortSsh::read(text) {
            return short.repository().ok_or_else(|| refuse("is no plain one of ssh"));
        }
        let url = Url::parse(text).map_err(|_wrong| refuse("cannot be read"))?;
        let known = SCHEMES.iter().find(|(scheme, _)| *scheme == url.scheme());
        let (scheme, port) = known.ok_or_else(|| refuse("is not of https, http, git or ssh"))?;
        let named = Some(url.username()).filter(|name| !name.is_empty());
        let user = named.filter(|name| *scheme == SSH && is_plain_user(name));
        if user != named || url.password().is_some() {
            // It is not repeated.
            return Err(Failure::unreachable(
                "the address holds a user or a password, which everybody would read; write it like \
                 https://example.org/weather.git",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refuse("holds `?` or `#`"));
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        let is_address =
            host.starts_with('[') && url.host().is_some_and(|host| matches!(host, Host::Ipv6(_)));
        if !is_address && !is_plain_host(&host) {
            return Err(refuse("has no plain host"));
        }
        let path = url.path().to_owned();
        if path.len() < 2 || path.starts_with("/-") || path.contains("//") {
            return Err(refuse("has no plain path"));
        }
        let (port, user) = (url.port().unwrap_or(*port), user.map(str::to_owned));
        Ok(Self { scheme, host, port, user, path })
    }

    /// The repository that a server sends on to, judged as if the owner had named it. `location` is what
    /// it answered when its branches were asked for.
    pub(super) fn moved(&self, location: &str) -> Result<Self, Failure> {
        let Self { scheme, host, port, path, user: _ } = self;
        let refuse = |what: &str| {
            Failure::unreachable(format!(
                "{scheme}://{host}:{port}{path} sends on to `{}`, {what}; write the address that the \
                 repository has now",
                location.escape_debug()
            ))
        };
        let base = format!("{scheme}://{host}:{port}{path}/info/refs?{SERVICE}");
        let there = Url::parse(&base).and_then(|base| base.join(location));
        let mut there = there.map_err(|_wrong| refuse("which cannot be read"))?;
        let is_listing = there.query().is_none_or(|query| query == SERVICE);
        let path = there.path().strip_suffix("/info/refs").filter(|_| is_listing);
        let path = path.ok_or_else(|| refuse("which is no repository"))?.to_owned();
        there.set_path(&path);
        there.set_query(None);
        let moved = Self::parse(there.as_str())?;
        match (*scheme, moved.scheme) {
            ("https", "https") | ("http", "http" | "https") => Ok(moved),
            (_, _) => Err(refuse("over another transport")),
        }
    }

    /// As the owner names it among the hosts that may be private.
    fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Finds its address. A private one is refused unless its host was allowed.
    pub(super) async fn locate(self, allowed: &[String]) -> Result<ResolvedRepository, Failure> {
        let name = self.host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let found = lookup_host((name.as_str(), self.port)).await.map_err(|error| {
            Failure::unreachable(format!(
                "the host {} was not found ({error}); see whether its name is right and a resolver \
                 answers",
                self.host
            ))
        })?;
        let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        let is_allowed = allowed.iter().any(|host| host.eq_ignore_ascii_case(&self.authority()));
        if let Some(address) = first_private(&found)
            && !is_allowed
        {
            let remedy = if address.is_loopback() {
                "it leads no further than the sandbox; write the address by which other machines reach \
                 the repository"
                    .to_owned()
            } else {
                let authority = self.authority();
                format!(
                    "let the owner name {authority} among the private hosts that builds may reach"
                )
            };
            return Err(Failure::unreachable(format!(
                "the host {} has the address {address}, which is not public; {remedy}",
                self.host
            )));
        }
        let address = *found.first().ok_or_else(|| {
            Failure::unreachable(format!("the host {} has no address; see its name", self.host))
        })?;
        Ok(ResolvedRepository { repository: self, address })
    }
}

impl ResolvedRepository {
    /// What git is given. Its own transport is named the address itself; the others are told by
    /// [`Self::resolution`].
    pub(super) fn url(&self) -> String {
        let Repository { scheme, host, port, user, path } = &self.repository;
        let host = if *scheme == "git" { bracketed(self.address) } else { host.clone() };
        let user = user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        if path.starts_with('/') {
            format!("{scheme}://{user}{host}:{port}{path}")
        } else {
            format!("{user}{host}:{path}")
        }
    }

    /// By which name a list of hosts of ssh has it.
    pub(super) fn known_as(&self) -> String {
        let Repository { host, port, .. } = &self.repository;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if *port == PORT_OF_SSH { host } else { format!("[{host}]:{port}") }
    }

    /// For the transports that check a host's name: name, port and address.
    pub(super) fn resolution(&self) -> String {
        let Repository { host, port, .. } = &self.repository;
        format!("{host}:{port}:{}", bracketed(self.address))
    }

    /// The name by which a server of several hosts knows the repository.
    pub(super) fn virtual_host(&self) -> String {
        self.repository.authority()
    }
}

/// The parts of `git@example.org:weather.git`.
struct ShortSsh<'a> {
    user: &'a str,
    host: &'a str,
    path: &'a str,
}

impl<'a> ShortSsh<'a> {
    /// What has this form, plain or not.
    fn read(text: &'a str) -> Option<Self> {
        let (host, path) = text.split_once(':')?;
        let (user, host) = host.split_once('@')?;
        (!host.contains('/') && !path.is_empty()).then_some(Self { user, host, path })
    }

    fn repository(self) -> Option<Repository> {
        let Self { user, host, path } = self;
        let plain = is_plain_user(user)
            && is_plain_host(host)
            && !path.starts_with('-')
            && !path.starts_with("/-")
            && !path.contains("//");
        plain.then(|| Repository {
            scheme: SSH,
            host: host.to_owned(),
            port: PORT_OF_SSH,
            user: Some(user.to_owned()),
            path: path.to_owned(),
        })
    }
}

fn is_plain_user(user: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !user.is_empty() && !user.starts_with(['-', '.']) && user.bytes().all(plain)
}

fn is_plain_host(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    !host.is_empty() && !host.starts_with(['-', '.']) && host.bytes().all(plain)
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_address_is_one() {
        let check = |text: &str, expected: Option<(&str, &str, u16, &str)>| {
            let parsed = Repository::parse(text).ok();
            let parts =
                parsed.as_ref().map(|r| (r.scheme, r.host.as_str(), r.port, r.path.as_str()));
            assert_eq!(parts, expected, "{text:?}");
        };
        check("https://example.org/a.git", Some(("https", "example.org", 443, "/a.git")));
        check("http://example.org:8080/a/b", Some(("http", "example.org", 8080, "/a/b")));
        check("git://198.51.100.7/a", Some(("git", "198.51.100.7", 9418, "/a")));
        check("ssh://example.org/a", Some(("ssh", "example.org", 22, "/a")));
        check("ssh://git@example.org:2222/~ada/a", Some(("ssh", "example.org", 2222, "/~ada/a")));
        check("git@example.org:ada/a.git", Some(("ssh", "example.org", 22, "ada/a.git")));
        check("git@example.org:/a.git", Some(("ssh", "example.org", 22, "/a.git")));
        check("git://[2001:db8::1]:99/a", Some(("git", "[2001:db8::1]", 99, "/a")));
        // Other ways to write a number are that number, or nothing.
        check("http://0x7f000001/a", Some(("http", "127.0.0.1", 80, "/a")));
        check("http://2130706433/a", Some(("http", "127.0.0.1", 80, "/a")));
        check("http://127.1/a", Some(("http", "127.0.0.1", 80, "/a")));
        for text in [
            "",
            "a.git",
            "/etc",
            "file:///etc",
            "ext::sh -c touch% /tmp/x",
            "ext::sh",
            "ssh://git:password@example.org/a",
            "ssh://-oProxyCommand=x/a",
            "ssh://-x@example.org/a",
            "-x@example.org:a",
            "git@example.org:",
            "git@example.org:-x",
            "git@-oProxyCommand=x:a",
            "git@example.org://a",
            "git@[::1]:a",
            "-oProxyCommand=x",
            "--upload-pack=touch x",
            "https://-oProxyCommand=x/a",
            "git://-x/a",
            "https://user@example.org/a",
            "https://user:password@example.org/a",
            "https://example.org",
            "https://example.org/",
            "https://example.org/--upload-pack=x",
            "https://example.org/a?x=1",
            "https://example.org/a#x",
            "https://example.org//a",
            "https://exa mple.org/a",
            "https://example.org/a\nb",
            "https://example.org\\@other/a",
            "git://example.org%0a/a",
            "git:///a",
            "https://ex\u{e4}mple.org/a",
            "http::https://example.org/a",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_redirect_leads_to_another_address_under_the_same_rules() {
        let check = |from: &str, location: &str, expected: Option<&str>| {
            let moved = Repository::parse(from).unwrap().moved(location).ok();
            let moved =
                moved.map(|to| format!("{}://{}:{}{}", to.scheme, to.host, to.port, to.path));
            assert_eq!(moved.as_deref(), expected, "{from} {location}");
        };
        let listing = |base: &str| format!("{base}/info/refs?service=git-upload-pack");
        let (from, there) = ("https://a.example/x", listing("https://b.example/y.git"));
        check(from, &there, Some("https://b.example:443/y.git"));
        check(from, "/y/info/refs", Some("https://a.example:443/y"));
        check(from, &listing("//b.example:99/y"), Some("https://b.example:99/y"));
        check("http://a.example/x", &there, Some("https://b.example:443/y.git"));
        for location in [
            "http://b.example/y/info/refs",
            "git://b.example/y/info/refs",
            "file:///etc/info/refs",
            "https://user@b.example/y/info/refs",
            "https://b.example/y",
            "https://b.example/y/info/refs?service=git-receive-pack",
            "https://b.example/y/info/refs#x",
            "https://b.example//info/refs",
            "https://-b.example/y/info/refs",
            "https://[/info/refs",
        ] {
            check(from, location, None);
        }
    }

    #[tokio::test]
    async fn a_private_host_is_refused_unless_it_was_named() {
        let check = async |url: &str, allowed: &[&str], fits: bool| {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            let located = Repository::parse(url).unwrap().locate(&allowed).await;
            assert_eq!(located.is_ok(), fits, "{url} {allowed:?}: {located:?}");
        };
        check("git://127.0.0.1/a", &[], false).await;
        check("git://localhost/a", &[], false).await;
        check("git://127.0.0.1/a", &["127.0.0.1:9418"], true).await;
        check("git://127.0.0.1:99/a", &["127.0.0.1:9418"], false).await;
        check("http://169.254.169.254/latest/meta-data", &[], false).await;
        check("http://[::ffff:169.254.169.254]/x", &[], false).await;
        check("https://1.1.1.1/a", &[], true).await;
        check("git://localhost/a", &["LOCALHOST:9418"], true).await;
    }

    #[tokio::test]
    async fn git_connects_to_the_address_that_was_looked_at() {
        let located = |url: &str, address: &str| ResolvedRepository {
            repository: Repository::parse(url).unwrap(),
            address: address.parse().unwrap(),
        };
        let git = located("git://example.org/a.git", "1.2.3.4");
        assert_eq!(git.url(), "git://1.2.3.4:9418/a.git");
        assert_eq!(git.virtual_host(), "example.org:9418");
        let https = located("https://example.org/a.git", "2606::1");
        assert_eq!(https.url(), "https://example.org:443/a.git");
        assert_eq!(https.resolution(), "example.org:443:[2606::1]");
    }
}
