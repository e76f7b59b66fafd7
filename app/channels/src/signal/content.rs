//! What a message of Signal says and carries, in core's words. Pure.

use super::wire::{Attachment, DataMessage, Mention, Quote, TextStyle};
use crate::styled::{Mark, Range, marked};
use famulus_core::{
    configure::is_configure,
    intake::{Quoted, RemoteFile, Writer},
};

/// Stands in a text where somebody is mentioned.
const MENTION: char = '\u{FFFC}';
/// How a text that is longer than 2,000 bytes travels; the daemon puts it into the message, too.
pub(super) const LONG_TEXT: &str = "text/x-signal-plain";
/// Characters of what is quoted that are kept.
const QUOTED: usize = 500;

pub(super) fn text(ours: &str, data: &DataMessage) -> String {
    if let Some(reaction) = &data.reaction {
        let is_to_us = reaction.target_author_uuid.as_deref() == Some(ours);
        return if is_to_us && !reaction.is_remove {
            format!("[answers a message of yours with {}]", reaction.emoji)
        } else {
            String::new()
        };
    }
    let plain = data.message.as_deref().unwrap_or_default();
    // A value is what was typed, without signs for its styles.
    if is_configure(plain) {
        return plain.to_owned();
    }
    let text =
        mentioned(ours, &marked(plain, data.text_styles.iter().filter_map(range)), &data.mentions);
    if !text.is_empty() {
        return text;
    }
    if data.view_once == Some(true) {
        return "[a picture to be seen once, which is not kept]".to_owned();
    }
    if data.sticker.is_some() {
        return "[sticker]".to_owned();
    }
    if !data.contacts.is_empty() {
        return "[contact]".to_owned();
    }
    String::new()
}

fn range(style: &TextStyle) -> Option<Range<'_>> {
    let mark = match style.style.as_str() {
        "BOLD" => Mark::Bold,
        "ITALIC" => Mark::Italic,
        "STRIKETHROUGH" => Mark::Strike,
        "SPOILER" => Mark::Spoiler,
        "MONOSPACE" => Mark::Code,
        _ => return None,
    };
    Some(Range { offset: style.start, length: style.length, mark })
}

/// Says who is meant, in the order of the places.
fn mentioned(ours: &str, text: &str, mentions: &[Mention]) -> String {
    if !text.contains(MENTION) {
        return text.to_owned();
    }
    let mut mentions = mentions.to_vec();
    mentions.sort_by_key(|mention| mention.start);
    let mut mentions = mentions.iter();
    let mut told = String::with_capacity(text.len());
    for character in text.chars() {
        if character != MENTION {
            told.push(character);
            continue;
        }
        told.push('@');
        told.push_str(match mentions.next() {
            Some(mention) if mention.uuid.as_deref() == Some(ours) => "you",
            Some(mention) => {
                mention.number.as_deref().or(mention.uuid.as_deref()).unwrap_or("somebody")
            }
            None => "somebody",
        });
    }
    told
}

pub(super) fn quoted(ours: &str, from: &Writer, quote: &Quote) -> Option<Quoted> {
    let text: String = quote.text.as_deref().unwrap_or_default().chars().take(QUOTED).collect();
    let by = match quote.author_uuid.as_deref() {
        Some(id) if id == ours => "you",
        Some(id) if id == from.id => from.name.as_str(),
        id => quote.author_number.as_deref().or(id).unwrap_or("somebody"),
    };
    (!text.is_empty()).then(|| Quoted { by: by.to_owned(), text })
}

/// What is to be seen once is not fetched.
pub(super) fn files(data: &DataMessage) -> Vec<RemoteFile> {
    if data.view_once == Some(true) {
        return Vec::new();
    }
    let all = data.attachments.iter();
    let files = all.filter(|one| one.content_type.as_deref() != Some(LONG_TEXT));
    files.filter_map(file).collect()
}

fn file(attachment: &Attachment) -> Option<RemoteFile> {
    let Attachment { content_type, filename, id, size } = attachment;
    let media_type = content_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
    let usual = || {
        let (name, extension) = match media_type.split('/').next() {
            Some("image") => ("picture", extension(&media_type)),
            Some("audio") => ("voice", extension(&media_type)),
            Some("video") => ("video", extension(&media_type)),
            Some(_) | None => ("file", "bin"),
        };
        format!("{name}.{extension}")
    };
    let name = filename.clone().filter(|name| !name.trim().is_empty()).unwrap_or_else(usual);
    Some(RemoteFile { handle: id.clone()?, name, media_type, size: *size })
}

fn extension(media_type: &str) -> &str {
    match media_type {
        "image/jpeg" => "jpg",
        "audio/mpeg" => "mp3",
        "audio/mp4" => "m4a",
        "video/quicktime" => "mov",
        other => other.split_once('/').map_or("bin", |(_, kind)| kind),
    }
}
