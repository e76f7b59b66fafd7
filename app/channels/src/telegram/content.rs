//! What a message of Telegram says and carries, in core's words. Pure.

use super::entities::markdown;
use super::read::writer;
use super::wire::{Entity, Location, Media, Message, PhotoSize};
use famulus_core::{
    configure::is_configure,
    intake::{Quoted, RemoteFile},
};

/// Characters of what is quoted that are kept.
const QUOTED: usize = 500;

pub(super) fn quoted(message: &Message) -> Option<Quoted> {
    let answered = message.reply_to_message.as_deref()?;
    let by = answered.from.as_ref().map_or_else(|| "somebody".to_owned(), |user| writer(user).name);
    let whole = || text(answered);
    let quoted = message.quote.as_ref().map_or_else(whole, |quote| quote.text.clone());
    let text: String = quoted.chars().take(QUOTED).collect();
    (!text.is_empty()).then_some(Quoted { by, text })
}

/// What a message says, also where it says it without words.
pub(super) fn text(message: &Message) -> String {
    if let Some(text) = &message.text {
        return said(text, &message.entities);
    }
    if let Some(caption) = &message.caption {
        return said(caption, &message.caption_entities);
    }
    if let Some(sticker) = &message.sticker {
        return format!("[sticker {}]", sticker.emoji.as_deref().unwrap_or_default());
    }
    if let Some(venue) = &message.venue {
        let place = message.location.map(place).unwrap_or_default();
        return format!("[place: {}, {}; {place}]", venue.title, venue.address);
    }
    if let Some(location) = message.location {
        let moves = if location.live_period.is_some() { ", which moves" } else { "" };
        return format!("[place: {}{moves}]", place(location));
    }
    if let Some(contact) = &message.contact {
        return format!("[contact: {}, {}]", contact.first_name, contact.phone_number);
    }
    String::new()
}

/// A value is what was typed, without signs for its styles.
fn said(text: &str, entities: &[Entity]) -> String {
    if is_configure(text) { text.to_owned() } else { markdown(text, entities) }
}

fn place(location: Location) -> String {
    format!("{:.6}, {:.6}", location.latitude, location.longitude)
}

/// A file by what the platform calls it, and what it is where nobody says more.
struct FileKind {
    of: fn(&Message) -> Option<&Media>,
    name: &'static str,
    extension: &'static str,
    media_type: &'static str,
}

const VIDEO: FileKind = FileKind {
    of: |one| one.video.as_ref(),
    name: "video",
    extension: "mp4",
    media_type: "video/mp4",
};

const KINDS: [FileKind; 6] = [
    FileKind {
        of: |one| one.voice.as_ref(),
        name: "voice",
        extension: "ogg",
        media_type: "audio/ogg",
    },
    FileKind {
        of: |one| one.audio.as_ref(),
        name: "audio",
        extension: "mp3",
        media_type: "audio/mpeg",
    },
    VIDEO,
    FileKind { of: |one| one.video_note.as_ref(), ..VIDEO },
    // It comes as a document, too.
    FileKind { of: |one| one.animation.as_ref(), name: "animation", ..VIDEO },
    FileKind {
        of: |one| one.document.as_ref(),
        name: "file",
        extension: "bin",
        media_type: "application/octet-stream",
    },
];

pub(super) fn files(message: &Message) -> Vec<RemoteFile> {
    // The largest is the last, but nothing says so.
    let photo = message.photo.iter().max_by_key(|size| size.width * size.height);
    if let Some(PhotoSize { file_id, file_unique_id, file_size, .. }) = photo {
        return vec![RemoteFile {
            handle: file_id.clone(),
            name: format!("photo-{file_unique_id}.jpg"),
            media_type: "image/jpeg".to_owned(),
            size: *file_size,
        }];
    }
    let found = KINDS.iter().find_map(|kind| {
        let media = (kind.of)(message)?;
        let usual = || format!("{}-{}.{}", kind.name, media.file_unique_id, kind.extension);
        Some(RemoteFile {
            handle: media.file_id.clone(),
            name: media.file_name.clone().unwrap_or_else(usual),
            media_type: media.mime_type.clone().unwrap_or_else(|| kind.media_type.to_owned()),
            size: media.file_size,
        })
    });
    found.into_iter().collect()
}
