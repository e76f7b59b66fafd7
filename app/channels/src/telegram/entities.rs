//! What people write, with its styles, as Markdown.
//!
//! Telegram tells styles as ranges of UTF-16 units. A range may end in the middle of another, or beyond the
//! text: what cannot be is left out, and the text never is.

use super::wire::Entity;

/// The text of a message as Markdown.
pub(super) fn markdown(text: &str, entities: &[Entity]) -> String {
    let places = places(text);
    let at = |units: i64| usize::try_from(units).ok().and_then(|units| places.get(units).copied());
    // Where something opens or closes: (byte, opens, length, mark).
    let mut marks: Vec<Mark> = Vec::new();
    let mut quotes: Vec<(usize, usize)> = Vec::new();
    for entity in entities {
        let (Some(from), Some(to)) = (at(entity.offset), at(entity.offset + entity.length)) else {
            continue;
        };
        // A style with a space at its edge is none in Markdown.
        let inner = &text[from..to];
        let from = from + (inner.len() - inner.trim_start().len());
        let to = from + text[from..to].trim_end().len();
        if from >= to {
            continue;
        }
        let (open, close) = match entity.kind.as_str() {
            "bold" => ("**".to_owned(), "**".to_owned()),
            "italic" => ("*".to_owned(), "*".to_owned()),
            "strikethrough" => ("~~".to_owned(), "~~".to_owned()),
            "spoiler" => ("||".to_owned(), "||".to_owned()),
            "code" => ("`".to_owned(), "`".to_owned()),
            "pre" => {
                let language = entity.language.as_deref().unwrap_or_default();
                (format!("```{language}\n"), "\n```".to_owned())
            }
            "text_link" => match &entity.url {
                Some(url) => ("[".to_owned(), format!("]({url})")),
                None => continue,
            },
            "blockquote" | "expandable_blockquote" => {
                quotes.push((from, to));
                continue;
            }
            _ => continue,
        };
        let length = to - from;
        marks.push(Mark { at: from, opens: true, length, text: open });
        marks.push(Mark { at: to, opens: false, length, text: close });
    }
    // At one place, what ends comes first, the shortest before what holds it; then what begins, the
    // longest first.
    marks.sort_by_key(|mark| {
        let length = mark.length as i64;
        (mark.at, mark.opens, if mark.opens { -length } else { length })
    });
    write(text, &marks, &quotes)
}

struct Mark {
    at: usize,
    opens: bool,
    length: usize,
    text: String,
}

fn write(text: &str, marks: &[Mark], quotes: &[(usize, usize)]) -> String {
    let mut markdown = String::with_capacity(text.len() + 8 * marks.len());
    let mut marks = marks.iter().peekable();
    let is_quoted = |at: usize| quotes.iter().any(|(from, to)| (*from..*to).contains(&at));
    let mut starts_line = true;
    for (at, character) in text.char_indices() {
        if starts_line && is_quoted(at) {
            while let Some(mark) = marks.next_if(|mark| mark.at <= at && !mark.opens) {
                markdown.push_str(&mark.text);
            }
            markdown.push_str("> ");
        }
        while let Some(mark) = marks.next_if(|mark| mark.at <= at) {
            markdown.push_str(&mark.text);
        }
        markdown.push(character);
        starts_line = character == '\n';
    }
    for mark in marks {
        markdown.push_str(&mark.text);
    }
    markdown
}

/// The byte of each UTF-16 unit that begins a character, and of the end; a unit within one has that of
/// the character's end.
fn places(text: &str) -> Vec<usize> {
    let mut places = Vec::with_capacity(text.len() + 1);
    for (at, character) in text.char_indices() {
        places.push(at);
        if character.len_utf16() == 2 {
            places.push(at + character.len_utf8());
        }
    }
    places.push(text.len());
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(kind: &str, offset: i64, length: i64) -> Entity {
        Entity { kind: kind.to_owned(), offset, length, url: None, language: None }
    }

    #[test]
    fn ranges_are_of_utf16_units() {
        let check = |text: &str, entities: &[Entity], expected: &str| {
            assert_eq!(markdown(text, entities), expected);
        };
        check("plain *as is*", &[], "plain *as is*");
        check("😀 hot tea", &[entity("bold", 3, 3)], "😀 **hot** tea");
        check("ab cd", &[entity("bold", 0, 5), entity("italic", 3, 2)], "**ab *cd***");
        check("ab cd", &[entity("italic", 3, 2), entity("bold", 0, 5)], "**ab *cd***");
        check("a b ", &[entity("bold", 0, 4)], "**a b** ");
        check("   ", &[entity("bold", 0, 3)], "   ");
        check("x", &[entity("bold", 0, 9), entity("bold", -1, 1), entity("bold", 1, 0)], "x");
        let pre = Entity { language: Some("py".into()), ..entity("pre", 0, 1) };
        check("x", &[pre], "```py\nx\n```");
        let link = Entity { url: Some("https://a.example".into()), ..entity("text_link", 0, 1) };
        check("x y", &[link], "[x](https://a.example) y");
        check("one\ntwo\nmine", &[entity("blockquote", 0, 7)], "> one\n> two\nmine");
        check("@ada", &[entity("mention", 0, 4)], "@ada");
        check("ab", &[entity("bold", 0, 1), entity("code", 1, 1)], "**a**`b`");
    }
}
