//! Markdown becomes styled text.
//!
//! What no chat shows is told in what all of them show: a heading is bold, an item has its mark, a
//! table is a block of aligned text, an image is a link.

use super::{Style, Styled};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::sync::Arc;

/// Between two columns of a table.
const GUTTER: &str = "  ";
const RULE: &str = "———";

/// Reads Markdown as models write it: CommonMark with tables, tasks and strikethrough.
pub(crate) fn read(markdown: &str) -> Styled {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut reader = Reader::default();
    for event in Parser::new_ext(markdown, options) {
        reader.take(event);
    }
    reader.styled
}

#[derive(Default)]
struct Reader {
    styled: Styled,
    style: Style,
    /// Line breaks before what comes next.
    gap: usize,
    /// The next number of each list that is open; `None` has marks.
    lists: Vec<Option<u64>>,
    /// An item's mark was written, and nothing behind it.
    at_mark: bool,
    bold: usize,
    italic: usize,
    strike: usize,
    quotes: usize,
    links: Vec<Option<Arc<str>>>,
    table: Option<Table>,
}

#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
}

impl Reader {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text);
            }
            Event::Code(code) => {
                self.style.code = true;
                self.text(&code);
                self.style.code = false;
            }
            Event::SoftBreak | Event::HardBreak => self.text("\n"),
            Event::Rule => {
                self.open(2);
                self.text(RULE);
                self.close(2);
            }
            Event::TaskListMarker(done) => self.text(if done { "☑ " } else { "☐ " }),
            Event::Html(html) | Event::InlineHtml(html) => {
                let is_break =
                    html.trim().trim_end_matches("/>").trim_end() == "<br" || html.trim() == "<br>";
                self.text(if is_break { "\n" } else { &html });
            }
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.open(self.between()),
            Tag::Heading { level, .. } => {
                self.open(2);
                self.bold += 1;
                if level >= HeadingLevel::H4 {
                    self.italic += 1;
                }
            }
            Tag::BlockQuote(_) => {
                self.open(2);
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.open(self.between());
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',', '{']).next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.style.block = Some(language.into());
            }
            Tag::HtmlBlock => self.open(2),
            Tag::List(start) => {
                let gap = if self.lists.is_empty() { 2 } else { 1 };
                self.open(gap);
                self.lists.push(start);
            }
            Tag::Item => self.item(),
            Tag::Emphasis => self.italic += 1,
            Tag::Strong => self.bold += 1,
            Tag::Strikethrough => self.strike += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(is_address(&dest_url).then(|| dest_url.as_ref().into()));
            }
            Tag::Table(_) => {
                self.open(2);
                self.table = Some(Table::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::TableCell => {
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(String::new());
                }
            }
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.close(self.between()),
            TagEnd::Heading(level) => {
                self.bold -= 1;
                if level >= HeadingLevel::H4 {
                    self.italic -= 1;
                }
                self.close(2);
            }
            TagEnd::BlockQuote(_) => {
                self.quotes -= 1;
                self.close(2);
            }
            TagEnd::CodeBlock => {
                self.style.block = None;
                self.trim_line_break();
                self.close(self.between());
            }
            TagEnd::HtmlBlock => {
                self.trim_line_break();
                self.close(2);
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.close(if self.lists.is_empty() { 2 } else { 1 });
            }
            TagEnd::Item => {
                // One that says nothing still has its line.
                self.at_mark = false;
                self.close(1);
            }
            TagEnd::Emphasis => self.italic -= 1,
            TagEnd::Strong => self.bold -= 1,
            TagEnd::Strikethrough => self.strike -= 1,
            TagEnd::Link | TagEnd::Image => {
                self.links.pop();
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.style.block = Some("".into());
                    self.text(&table.aligned());
                    self.style.block = None;
                }
                self.close(2);
            }
            TagEnd::TableHead
            | TagEnd::TableRow
            | TagEnd::TableCell
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// Line breaks between two blocks: those of an item stand closer.
    fn between(&self) -> usize {
        if self.lists.is_empty() { 2 } else { 1 }
    }

    /// A block begins, so many line breaks behind what was before; never behind its item's mark.
    fn open(&mut self, gap: usize) {
        if !self.at_mark {
            self.gap = self.gap.max(gap);
        }
    }

    fn close(&mut self, gap: usize) {
        self.gap = self.gap.max(gap);
    }

    fn item(&mut self) {
        self.at_mark = false;
        self.open(1);
        let indent = "   ".repeat(self.lists.len().saturating_sub(1));
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{indent}{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            Some(None) | None => format!("{indent}• "),
        };
        self.text(&mark);
        self.at_mark = true;
    }

    fn text(&mut self, text: &str) {
        if let Some(cell) = self.table.as_mut().and_then(|table| table.rows.last_mut()?.last_mut())
        {
            cell.push_str(&text.replace('\n', " "));
            return;
        }
        if text.is_empty() {
            return;
        }
        let style = Style {
            bold: self.bold > 0,
            italic: self.italic > 0,
            strike: self.strike > 0,
            quote: self.quotes > 0,
            link: self.links.iter().rev().find_map(Clone::clone),
            ..self.style.clone()
        };
        self.flush_gap(&style);
        self.at_mark = false;
        self.styled.push(text, &style);
    }

    /// Line breaks belong to a quote when it goes on behind them, and to no other style.
    fn flush_gap(&mut self, next: &Style) {
        let gap = std::mem::take(&mut self.gap);
        let Some(last) = self.styled.runs.last() else { return };
        let style = Style { quote: last.style.quote && next.quote, ..Style::default() };
        self.styled.push(&"\n".repeat(gap), &style);
    }

    /// A block's own last line break; the gap behind it is another.
    fn trim_line_break(&mut self) {
        if let Some(last) = self.styled.runs.last_mut() {
            let kept = last.text.trim_end_matches('\n').len();
            last.text.truncate(kept);
            if kept == 0 {
                self.styled.runs.pop();
            }
        }
    }
}

impl Table {
    /// Columns under each other, in a font whose letters are equally wide.
    fn aligned(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let cell = |row: &Vec<String>, column: usize| {
            row.get(column).map_or(String::new(), |cell| cell.trim().to_owned())
        };
        let width = |column: usize| {
            self.rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = widths
                .iter()
                .enumerate()
                .map(|(column, width)| format!("{:<width$}", cell(row, column)));
            cells.collect::<Vec<_>>().join(GUTTER).trim_end().to_owned()
        };
        let mut lines: Vec<String> = self.rows.iter().map(line).collect();
        if lines.len() > 1 {
            let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>();
            lines.insert(1, rule.join(GUTTER));
        }
        lines.join("\n")
    }
}

/// What a platform opens when it is pressed.
fn is_address(url: &str) -> bool {
    ["http://", "https://", "mailto:", "tel:"].iter().any(|scheme| url.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::styled::Run;

    fn shown(markdown: &str) -> String {
        read(markdown).text()
    }

    #[test]
    fn blocks_are_told_in_lines() {
        let check = |markdown: &str, expected: &str| assert_eq!(shown(markdown), expected);
        check("# Tea\n\nIt is *hot*.\nTake care.", "Tea\n\nIt is hot.\nTake care.");
        check("- one\n- two\n  - inner\n- three", "• one\n• two\n   • inner\n• three");
        check("3. a\n4. b", "3. a\n4. b");
        check("1. a\n\n   more of a\n2. b", "1. a\nmore of a\n2. b");
        check("- [x] done\n- [ ] open", "• ☑ done\n• ☐ open");
        check("a\n\n---\n\nb", "a\n\n———\n\nb");
        check("```rust\nfn main() {}\n```\nthen", "fn main() {}\n\nthen");
        check("| a | bb |\n|---|---|\n| ccc | d |", "a    bb\n───  ──\nccc  d");
        check("> quoted\n>\n> more\n\nmine", "quoted\n\nmore\n\nmine");
        check("a<br>b", "a\nb");
        check("1 < 2 & <b>", "1 < 2 & <b>");
        check("", "");
    }

    #[test]
    fn styles_are_kept_and_nested() {
        let runs = read("**bold *both*** `code` [a](https://b.example) ~~no~~").runs;
        let told = |run: &Run| {
            let Style { bold, italic, strike, code, ref link, .. } = run.style;
            let styles = [(bold, "b"), (italic, "i"), (strike, "s"), (code, "c")];
            let styles = styles.iter().filter(|(on, _)| *on).map(|(_, name)| *name);
            let link = link.as_deref().unwrap_or_default();
            format!("{}|{}{link}", run.text, styles.collect::<String>())
        };
        assert_eq!(
            runs.iter().map(told).collect::<Vec<_>>(),
            ["bold |b", "both|bi", " |", "code|c", " |", "a|https://b.example", " |", "no|s"]
        );
        let code = read("```py\nx\n```").runs;
        assert_eq!(code[0].style.block.as_deref(), Some("py"));
        let quote = read("> a\n>\n> b\n\nc").runs;
        assert_eq!(quote[0].text, "a\n\nb", "a quote is one: {quote:?}");
        assert!(quote[0].style.quote && !quote[1].style.quote);
        let other = read("[a](javascript:alert(1))").runs;
        assert_eq!(other[0].style.link, None);
    }
}
