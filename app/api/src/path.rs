//! Paths as the table of routes writes them: literal segments and `{names}`, the last of which may be a
//! `{*name}` that means all that is left.

/// Whether a request's path is one that the pattern means.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let mut wanted = pattern.split('/');
    let mut given = path.split('/');
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(first)) if wanted.starts_with("{*") => {
                return !first.is_empty() || given.next().is_some();
            }
            (Some(wanted), Some(given)) => {
                let fits =
                    if wanted.starts_with('{') { !given.is_empty() } else { wanted == given };
                if !fits {
                    return false;
                }
            }
            (Some(_), None) | (None, Some(_)) => return false,
        }
    }
}

/// The names of a pattern's parameters, in order.
pub(crate) fn parameters(pattern: &str) -> impl Iterator<Item = &str> {
    let names = pattern.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| name.trim_start_matches('*'))
}

/// The pattern with one kind of parameter, for those who know no other.
pub(crate) fn plain(pattern: &str) -> String {
    pattern.replace("{*", "{")
}

/// Whether the percent signs of a path stand for text.
pub(crate) fn is_text(path: &str) -> bool {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return false };
        bytes.push((high * 16 + low) as u8);
    }
    std::str::from_utf8(&bytes).is_ok_and(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_segment_by_segment() {
        let check = |pattern, path, expected| {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        };
        check("/chat", "/chat", true);
        check("/chat", "/chat/", false);
        check("/v1/turns/{id}", "/v1/turns/x", true);
        check("/v1/turns/{id}", "/v1/turns/", false);
        check("/v1/turns/{id}", "/v1/turns", false);
        check("/v1/turns/{id}/cancel", "/v1/turns/x/cancel", true);
        check("/v1/turns/{id}/cancel", "/v1/turns/x/y/cancel", false);
        check("/files/{*path}", "/files/x", true);
        check("/files/{*path}", "/files/x/y//z/", true);
        check("/files/{*path}", "/files//x", true);
        check("/files/{*path}", "/files/", false);
        check("/files/{*path}", "/files", false);
        assert_eq!(parameters("/a/{b}/c/{*d}").collect::<Vec<_>>(), ["b", "d"]);
        assert_eq!(plain("/a/{b}/c/{*d}"), "/a/{b}/c/{d}");
    }

    #[test]
    fn a_path_must_be_text() {
        let check = |path, expected| assert_eq!(is_text(path), expected, "{path}");
        check("/v1/agents/a%20b", true);
        check("/%ff", false);
        check("/%2", false);
        check("/%zz", false);
        check("/%00", false);
    }
}
