//! HTML as the Bot API reads it: a handful of tags, each closed, none crossed, four names of characters.

/// A style of a message, as a range of UTF-16 units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// `bold`, `text_link`, `pre` and so on.
    pub kind: String,
    pub offset: usize,
    pub length: usize,
    /// The address of a link, or the language of a block of code.
    pub detail: Option<String>,
}

struct Open {
    tag: String,
    kind: String,
    detail: Option<String>,
    offset: usize,
}

/// The text and its styles.
///
/// # Errors
/// The description with which the message is refused.
pub fn parse(html: &str) -> Result<(String, Vec<Entity>), String> {
    let mut text = String::new();
    let mut units = 0;
    let mut open: Vec<Open> = Vec::new();
    let mut entities: Vec<Entity> = Vec::new();
    let mut at = 0;
    while at < html.len() {
        let rest = &html[at..];
        if rest.starts_with('<') {
            let end = rest
                .find('>')
                .ok_or_else(|| refuse(format!("Unclosed start tag at byte offset {at}")))?;
            let inner = &rest[1..end];
            match inner.strip_prefix('/') {
                Some(name) => close(name.trim(), at, units, &mut open, &mut entities)?,
                None => open.push(opened(inner, at, units, &open)?),
            }
            at += end + 1;
        } else if rest.starts_with('&') {
            let (character, length) = named(rest);
            text.push(character);
            units += character.len_utf16();
            at += length;
        } else {
            let character = rest.chars().next().unwrap_or_default();
            text.push(character);
            units += character.len_utf16();
            at += character.len_utf8();
        }
    }
    if let Some(left) = open.last() {
        return Err(refuse(format!(
            "Can't find end tag corresponding to start tag \"{}\"",
            left.tag
        )));
    }
    // The outermost first, as they are told.
    entities.sort_by_key(|entity| (entity.offset, usize::MAX - entity.length));
    Ok((text, entities))
}

fn refuse(why: String) -> String {
    format!("Bad Request: can't parse entities: {why}")
}

fn opened(inner: &str, at: usize, offset: usize, open: &[Open]) -> Result<Open, String> {
    let (name, attributes) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
    let tag = name.to_ascii_lowercase();
    let value = |wanted: &str| attribute(attributes, wanted);
    let (kind, detail) = match tag.as_str() {
        "b" | "strong" => ("bold", None),
        "i" | "em" => ("italic", None),
        "u" | "ins" => ("underline", None),
        "s" | "strike" | "del" => ("strikethrough", None),
        "tg-spoiler" => ("spoiler", None),
        "span" if value("class").as_deref() == Some("tg-spoiler") => ("spoiler", None),
        "span" => {
            return Err(refuse(format!(
                "Tag \"span\" must have class \"tg-spoiler\" at byte offset {at}"
            )));
        }
        "a" => ("text_link", value("href")),
        "code" => {
            let language =
                value("class").and_then(|class| class.strip_prefix("language-").map(str::to_owned));
            // Within a block it tells the language of that.
            ("code", language.filter(|_| open.last().is_some_and(|outer| outer.tag == "pre")))
        }
        "pre" => ("pre", None),
        "blockquote" if open.iter().any(|outer| outer.tag == "blockquote") => {
            return Err(refuse("Blockquotes can't be nested".to_owned()));
        }
        "blockquote" => ("blockquote", None),
        _ => return Err(refuse(format!("Unsupported start tag \"{name}\" at byte offset {at}"))),
    };
    Ok(Open { tag, kind: kind.to_owned(), detail, offset })
}

fn close(
    name: &str,
    at: usize,
    units: usize,
    open: &mut Vec<Open>,
    entities: &mut Vec<Entity>,
) -> Result<(), String> {
    let Some(top) = open.pop() else {
        return Err(refuse(format!("Unexpected end tag at byte offset {at}")));
    };
    if !name.is_empty() && name.to_ascii_lowercase() != top.tag {
        return Err(refuse(format!(
            "Unmatched end tag at byte offset {at}, expected \"</{}>\", found \"</{name}>\"",
            top.tag
        )));
    }
    let Open { kind, detail, offset, .. } = top;
    let length = units - offset;
    if length == 0 {
        return Ok(());
    }
    // A language is the block's.
    if kind == "code" && open.last().is_some_and(|outer| outer.tag == "pre") {
        if let Some(outer) = open.last_mut() {
            outer.detail = detail;
        }
        return Ok(());
    }
    if kind == "text_link" && detail.is_none() {
        return Ok(());
    }
    entities.push(Entity { kind, offset, length, detail });
    Ok(())
}

fn attribute(attributes: &str, wanted: &str) -> Option<String> {
    let from = attributes.find(&format!("{wanted}="))? + wanted.len() + 1;
    let rest = &attributes[from..];
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let end = rest[1..].find(quote)? + 1;
    Some(decoded(&rest[1..end]))
}

fn decoded(text: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let (character, length) = if rest.starts_with('&') {
            named(rest)
        } else {
            let character = rest.chars().next().unwrap_or_default();
            (character, character.len_utf8())
        };
        out.push(character);
        at += length;
    }
    out
}

/// A named or numbered character; what is neither stands for itself.
fn named(rest: &str) -> (char, usize) {
    let Some(end) = rest.find(';').filter(|end| *end <= 10) else { return ('&', 1) };
    let name = &rest[1..end];
    let found = match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        _ => {
            let hex = name.strip_prefix("#x").map(|hex| u32::from_str_radix(hex, 16).ok());
            let number = hex.unwrap_or_else(|| name.strip_prefix('#')?.parse().ok());
            number.and_then(char::from_u32)
        }
    };
    found.map_or(('&', 1), |character| (character, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_ranges_of_utf16_units() {
        let (text, entities) = parse("😀 <b>a <i>b</i></b> &lt;&amp;&#33;").unwrap();
        assert_eq!(text, "😀 a b <&!");
        let found: Vec<(&str, usize, usize)> =
            entities.iter().map(|e| (e.kind.as_str(), e.offset, e.length)).collect();
        assert_eq!(found, [("bold", 3, 3), ("italic", 5, 1)]);
        let (_, entities) = parse("<a href=\"https://a.example/?x=&quot;\">a</a>").unwrap();
        assert_eq!(entities[0].detail.as_deref(), Some("https://a.example/?x=\""));
        let (_, entities) = parse("<pre><code class=\"language-py\">x</code></pre>").unwrap();
        assert_eq!((entities[0].kind.as_str(), entities[0].detail.as_deref()), ("pre", Some("py")));
        assert_eq!(entities.len(), 1);
    }

    #[test]
    fn what_the_real_one_refuses_is_refused() {
        let check = |html: &str, why: &str| {
            let refused = parse(html).unwrap_err();
            assert!(refused.contains(why), "{html}: {refused}");
        };
        check("<p>x</p>", "Unsupported start tag \"p\" at byte offset 0");
        check("a<br>", "Unsupported start tag \"br\"");
        check("<b>x", "Can't find end tag corresponding to start tag \"b\"");
        check("x</b>", "Unexpected end tag at byte offset 1");
        check("<b><i>x</b></i>", "expected \"</i>\"");
        check("<span>x</span>", "must have class");
        check("<blockquote><blockquote>x</blockquote></blockquote>", "can't be nested");
        assert_eq!(parse("a &nbsp; b & c").unwrap().0, "a &nbsp; b & c");
    }
}
