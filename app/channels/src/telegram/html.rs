//! Styled text as the HTML that Telegram reads.
//!
//! It knows few tags, refuses a message with any other, with one that is not closed or that crosses
//! another, and drops styles around code. So tags stand in one order, and code has none but a quote's.

use crate::styled::{Style, Styled};
use std::sync::Arc;

/// A tag that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tag {
    Quote,
    Link(Arc<str>),
    Bold,
    Italic,
    Strike,
    Code,
    Block(Arc<str>),
}

/// Writes styled text.
pub(super) fn html(styled: &Styled) -> String {
    let mut html = String::new();
    let mut open: Vec<Tag> = Vec::new();
    for run in &styled.runs {
        let wanted = tags(&run.style);
        let kept = open.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
        while open.len() > kept {
            if let Some(tag) = open.pop() {
                tag.close(&mut html);
            }
        }
        for tag in &wanted[kept..] {
            tag.open(&mut html);
        }
        open = wanted;
        escape(&run.text, &mut html);
    }
    while let Some(tag) = open.pop() {
        tag.close(&mut html);
    }
    html
}

/// The tags of a style, the outermost first.
fn tags(style: &Style) -> Vec<Tag> {
    let Style { bold, italic, strike, code, block, quote, link } = style;
    let mut tags = Vec::new();
    if *quote {
        tags.push(Tag::Quote);
    }
    if let Some(language) = block {
        tags.push(Tag::Block(Arc::clone(language)));
        return tags;
    }
    // A link that is code is a link.
    if *code && link.is_none() {
        tags.push(Tag::Code);
        return tags;
    }
    tags.extend(link.clone().map(Tag::Link));
    let styles = [(*bold, Tag::Bold), (*italic, Tag::Italic), (*strike, Tag::Strike)];
    tags.extend(styles.into_iter().filter(|(on, _)| *on).map(|(_, tag)| tag));
    tags
}

impl Tag {
    fn open(&self, html: &mut String) {
        match self {
            Self::Quote => html.push_str("<blockquote>"),
            Self::Link(url) => {
                html.push_str("<a href=\"");
                escape(url, html);
                html.push_str("\">");
            }
            Self::Bold => html.push_str("<b>"),
            Self::Italic => html.push_str("<i>"),
            Self::Strike => html.push_str("<s>"),
            Self::Code => html.push_str("<code>"),
            Self::Block(language) if language.is_empty() => html.push_str("<pre>"),
            Self::Block(language) => {
                html.push_str("<pre><code class=\"language-");
                escape(language, html);
                html.push_str("\">");
            }
        }
    }

    fn close(&self, html: &mut String) {
        html.push_str(match self {
            Self::Quote => "</blockquote>",
            Self::Link(_) => "</a>",
            Self::Bold => "</b>",
            Self::Italic => "</i>",
            Self::Strike => "</s>",
            Self::Code => "</code>",
            Self::Block(language) if language.is_empty() => "</pre>",
            Self::Block(_) => "</code></pre>",
        });
    }
}

/// Only these four have names there.
fn escape(text: &str, html: &mut String) {
    for character in text.chars() {
        match character {
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '&' => html.push_str("&amp;"),
            '"' => html.push_str("&quot;"),
            // Nobody sees them, and it refuses some in any spelling.
            control if control.is_control() && control != '\n' && control != '\t' => {}
            other => html.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::styled::read;

    #[test]
    fn tags_are_nested_in_one_order_and_closed() {
        let check = |markdown: &str, expected: &str| {
            assert_eq!(html(&read(markdown)), expected, "{markdown}");
        };
        check("a < b & \"c\"", "a &lt; b &amp; &quot;c&quot;");
        check("**a *b* c**", "<b>a <i>b</i> c</b>");
        check("*a **b***c", "<i>a </i><b><i>b</i></b>c");
        check("**`x`** y", "<code>x</code> y");
        check(
            "[`x`](https://a.example/?q=\"&r)",
            "<a href=\"https://a.example/?q=&quot;&amp;r\">x</a>",
        );
        check("```c++\na<b\n```", "<pre><code class=\"language-c++\">a&lt;b</code></pre>");
        check("    x", "<pre>x</pre>");
        check("> a **b**\n>\n> c", "<blockquote>a <b>b</b>\n\nc</blockquote>");
        check("# T\n\nx", "<b>T</b>\n\nx");
        check(
            "**a [b](https://c.example) d**",
            "<b>a </b><a href=\"https://c.example\"><b>b</b></a><b> d</b>",
        );
    }
}
