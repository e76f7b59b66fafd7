//! Which Postgres a program says that it is.

/// The first version that the schema is written for.
pub(super) const OLDEST_MAJOR: u32 = 15;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) major: u32,
    /// As the program states it, such as `18.4`.
    pub(super) text: String,
}

impl Version {
    /// Reads `postgres (PostgreSQL) 18.4 (Debian 18.4-1)` and the like.
    pub(super) fn parse(said: &str) -> Option<Self> {
        let text = said.split_once("(PostgreSQL) ")?.1.split_whitespace().next()?.to_owned();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        Some(Self { major: text[..digits].parse().ok()?, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_the_program_says() {
        let check = |said, expected: Option<(u32, &str)>| {
            let version = Version::parse(said).map(|version| (version.major, version.text));
            assert_eq!(version, expected.map(|(major, text)| (major, text.to_owned())), "{said}");
        };
        check("postgres (PostgreSQL) 18.4", Some((18, "18.4")));
        check("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)", Some((15, "15.13")));
        check("postgres (PostgreSQL) 19beta2", Some((19, "19beta2")));
        check("postgres (PostgreSQL) devel", None);
        check("something else", None);
    }
}
