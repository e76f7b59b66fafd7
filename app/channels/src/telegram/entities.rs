//! What people write, with its styles, as Markdown.

use super::wire::Entity;
use crate::styled::{Mark, Range, marked};

/// The text of a message as Markdown.
pub(super) fn markdown(text: &str, entities: &[Entity]) -> String {
    marked(text, entities.iter().filter_map(range))
}

/// Of a mention, an address or a command nothing is shown but its text.
fn range(entity: &Entity) -> Option<Range<'_>> {
    let mark = match entity.kind.as_str() {
        "bold" => Mark::Bold,
        "italic" => Mark::Italic,
        "strikethrough" => Mark::Strike,
        "spoiler" => Mark::Spoiler,
        "code" => Mark::Code,
        "pre" => Mark::Block(entity.language.as_deref().unwrap_or_default()),
        "text_link" => Mark::Link(entity.url.as_deref()?),
        "blockquote" | "expandable_blockquote" => Mark::Quote,
        _ => return None,
    };
    Some(Range { offset: entity.offset, length: entity.length, mark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_styles() {
        let check = |kind: &str, expected: &str| {
            let entity = Entity {
                kind: kind.to_owned(),
                offset: 0,
                length: 1,
                url: Some("https://a.example".to_owned()),
                language: Some("py".to_owned()),
            };
            assert_eq!(markdown("x y", &[entity]), expected);
        };
        check("bold", "**x** y");
        check("pre", "```py\nx\n``` y");
        check("text_link", "[x](https://a.example) y");
        check("expandable_blockquote", "> x y");
        check("mention", "x y");
    }
}
