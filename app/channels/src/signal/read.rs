//! Events become what happened, in core's words. Pure.
//!
//! Who somebody is stands in their account id alone: a number may be hidden, and changes, and a name is
//! what its bearer says.

use super::NAME;
use super::content::{files, quoted, text};
use super::wire::{DataMessage, EditMessage, Envelope, Event, SentMessage};
use famulus_core::{
    inbound::{Address, Chat},
    intake::{Happening, Writer, Written},
};
use jiff::Timestamp;
use std::time::Duration;

/// Whom an account of ours serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serves {
    /// Whoever writes to it.
    All,
    /// It is a person's own: what they write to themselves, and nobody else.
    Themselves,
}

/// A message as it is found in an event.
pub(super) struct Found {
    from: Writer,
    chat: Chat,
    data: DataMessage,
    /// When what it changes was written.
    edits: Option<i64>,
}

/// The message of an event, if it has one that is for us.
pub(super) fn found(ours: &str, serves: Serves, event: Event) -> Option<Found> {
    let Envelope {
        source_uuid,
        source_number,
        source_name,
        data_message,
        edit_message,
        sync_message,
    } = event.envelope;
    // Without an id it could be anybody.
    let id = source_uuid.filter(|id| is_account(id))?;
    let name = source_name.filter(|name| !name.trim().is_empty()).or(source_number);
    let from = Writer { id, name: name.unwrap_or_else(|| "somebody".to_owned()), language: None };
    let (data, edits, chat) = match serves {
        Serves::All if from.id != ours => {
            let (data, edits) = either(data_message, edit_message)?;
            let chat = match &data.group_info {
                Some(group) => Chat::group(&*group.group_id),
                None => Chat::direct(&*from.id),
            };
            (data, edits, chat)
        }
        Serves::Themselves if from.id == ours => {
            let sent = sync_message?.sent_message?;
            let SentMessage { destination_uuid, edit_message, data } = sent;
            if destination_uuid.as_deref() != Some(ours) {
                return None;
            }
            let (data, edits) = either(Some(data), edit_message)?;
            (data, edits, Chat::direct(ours))
        }
        Serves::All | Serves::Themselves => return None,
    };
    (data.timestamp > 0).then_some(Found { from, chat, data, edits })
}

/// An edit has all of the message in it.
fn either(
    data: Option<DataMessage>,
    edit: Option<EditMessage>,
) -> Option<(DataMessage, Option<i64>)> {
    match (edit, data) {
        (Some(EditMessage { target_sent_timestamp, data_message }), _) => {
            Some((data_message, Some(target_sent_timestamp)))
        }
        (None, Some(data)) => Some((data, None)),
        (None, None) => None,
    }
}

impl Found {
    /// Unique for an account of ours: nobody writes two messages at one time.
    pub(super) fn key(&self) -> String {
        key(&self.from.id, self.data.timestamp)
    }

    pub(super) fn chat(&self) -> &Chat {
        &self.chat
    }

    pub(super) fn from(&self) -> &str {
        &self.from.id
    }

    pub(super) fn timestamp(&self) -> i64 {
        self.data.timestamp
    }

    /// What it says; nothing of what only the platform's own programs show.
    pub(super) fn happening(self, ours: &str) -> Happening {
        let key = self.key();
        let Self { from, chat, data, edits } = self;
        let files = files(&data);
        let text = text(ours, &data);
        if text.is_empty() && files.is_empty() {
            return match data.group_info {
                Some(_) => Happening::Joined { chat },
                None => Happening::Nothing,
            };
        }
        let reply = Address {
            channel: NAME.to_owned(),
            account: ours.to_owned(),
            chat: chat.id.clone(),
            thread: None,
            reply_to: None,
        };
        Happening::Wrote(Box::new(Written {
            key,
            reply,
            text,
            forwarded: None,
            quoted: data.quote.as_ref().and_then(|quote| quoted(ours, &from, quote)),
            files,
            album: None,
            edits: edits.map(|target| self::key(&from.id, target)),
            vanishes_after: data
                .expires_in_seconds
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
            written_at: Timestamp::from_millisecond(data.timestamp)
                .unwrap_or(Timestamp::UNIX_EPOCH),
            from,
            chat,
        }))
    }
}

fn key(author: &str, timestamp: i64) -> String {
    format!("{author}/{timestamp}")
}

/// An account id, and not one of a number's that belongs to nobody.
pub(super) fn is_account(id: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lengths = [8, 4, 4, 4, 12];
    id.split('-').map(str::len).eq(lengths) && id.split('-').all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::super::content::LONG_TEXT;
    use super::*;
    use famulus_core::intake::Quoted;
    use serde_json::{Value, json};

    const OURS: &str = "00000000-0000-4000-8000-000000000099";
    const ADA: &str = "00000000-0000-4000-8000-000000000007";

    fn envelope(more: Value) -> Event {
        let mut envelope = json!({
            "source": ADA, "sourceNumber": null, "sourceUuid": ADA, "sourceName": "Ada",
            "sourceDevice": 1, "timestamp": 1_700_000_000_123_i64,
            "serverReceivedTimestamp": 1_700_000_000_200_i64,
        });
        envelope.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({"account": "+1", "envelope": envelope})).unwrap()
    }

    fn message(more: Value) -> Value {
        let mut message = json!({
            "timestamp": 1_700_000_000_123_i64, "message": null, "expiresInSeconds": 0,
            "viewOnce": false,
        });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message
    }

    fn read(serves: Serves, event: Event) -> Happening {
        found(OURS, serves, event).map_or(Happening::Nothing, |found| found.happening(OURS))
    }

    fn wrote(data: Value) -> Written {
        let happening = read(Serves::All, envelope(json!({"dataMessage": message(data)})));
        let Happening::Wrote(written) = happening else { panic!("{happening:?}") };
        *written
    }

    #[test]
    fn a_text_is_told_with_who_wrote_it_and_where_a_reply_goes() {
        let written = wrote(json!({"message": "😀 hot tea",
            "textStyles": [{"style": "BOLD", "start": 3, "length": 3}]}));
        assert_eq!(written.text, "😀 **hot** tea");
        assert_eq!((written.from.id.as_str(), written.from.name.as_str()), (ADA, "Ada"));
        assert_eq!(written.key, format!("{ADA}/1700000000123"));
        assert_eq!((written.reply.account.as_str(), written.reply.chat.as_str()), (OURS, ADA));
        assert_eq!(written.chat, Chat::direct(ADA));
        assert_eq!(written.written_at.as_millisecond(), 1_700_000_000_123);
    }

    #[test]
    fn whoever_has_no_id_is_nobody() {
        let said = json!({"dataMessage": message(json!({"message": "hello"}))});
        let of = |id: Value| {
            let mut more = said.clone();
            more["sourceUuid"] = id;
            read(Serves::All, envelope(more))
        };
        for id in [json!(null), json!(""), json!("PNI:x"), json!("+15550000007"), json!(OURS)] {
            assert_eq!(of(id.clone()), Happening::Nothing, "{id}");
        }
        assert!(matches!(of(json!(ADA)), Happening::Wrote(_)));
    }

    #[test]
    fn a_persons_own_account_serves_what_they_write_to_themselves() {
        let theirs = json!({"dataMessage": message(json!({"message": "hello"}))});
        assert_eq!(read(Serves::Themselves, envelope(theirs)), Happening::Nothing);
        let sent = |to: Value, data: Value| {
            let mut sent = message(data);
            sent["destination"] = to.clone();
            sent["destinationUuid"] = to;
            envelope(json!({"sourceUuid": OURS, "syncMessage": {"sentMessage": sent}}))
        };
        let note = || sent(json!(OURS), json!({"message": "remember the milk"}));
        let Happening::Wrote(written) = read(Serves::Themselves, note()) else { panic!("no note") };
        assert_eq!((written.text.as_str(), written.chat.id.as_str()), ("remember the milk", OURS));
        assert_eq!(read(Serves::All, note()), Happening::Nothing);
        let hello = || json!({"message": "hello"});
        for event in [
            sent(json!(ADA), hello()),
            sent(json!(null), json!({"message": "x", "groupInfo": {"groupId": "g="}})),
            envelope(json!({"sourceUuid": OURS, "syncMessage": {}})),
            envelope(json!({"sourceUuid": OURS, "syncMessage": {"readMessages": []}})),
        ] {
            assert_eq!(read(Serves::Themselves, event), Happening::Nothing);
        }
    }

    #[test]
    fn an_edit_names_what_it_changes() {
        let edit = envelope(json!({"editMessage": {"targetSentTimestamp": 1_700_000_000_001_i64,
            "dataMessage": message(json!({"message": "cold tea"}))}}));
        let Happening::Wrote(written) = read(Serves::All, edit) else { panic!("no edit") };
        assert_eq!(written.key, format!("{ADA}/1700000000123"));
        assert_eq!(written.edits, Some(format!("{ADA}/1700000000001")));
    }

    #[test]
    fn a_message_that_vanishes_says_when() {
        let after = |seconds: Value| {
            wrote(json!({"message": "burn this", "expiresInSeconds": seconds})).vanishes_after
        };
        assert_eq!(after(json!(30)), Some(Duration::from_secs(30)));
        assert_eq!((after(json!(0)), after(json!(null))), (None, None));
    }

    #[test]
    fn files_have_a_name_a_kind_and_a_size() {
        let one = |attachment: Value| {
            let written = wrote(json!({"message": "look", "attachments": [
                {"contentType": LONG_TEXT, "filename": null, "id": "long", "size": 3_000}, attachment]}));
            written
                .files
                .into_iter()
                .map(|file| (file.handle, file.name, file.media_type, file.size))
                .collect::<Vec<_>>()
        };
        let told = |handle: &str, name: &str, kind: &str, size| {
            vec![(handle.to_owned(), name.to_owned(), kind.to_owned(), size)]
        };
        assert_eq!(
            one(json!({"contentType": "image/jpeg", "filename": null, "id": "a.jpg", "size": 9})),
            told("a.jpg", "picture.jpg", "image/jpeg", Some(9))
        );
        assert_eq!(
            one(
                json!({"contentType": "application/pdf", "filename": "a.pdf", "id": "b", "size": null})
            ),
            told("b", "a.pdf", "application/pdf", None)
        );
        assert_eq!(one(json!({"contentType": "image/png", "id": null})), []);
    }

    #[test]
    fn what_has_no_words_is_told_in_words() {
        assert_eq!(wrote(json!({"sticker": {"packId": "ab", "stickerId": 1}})).text, "[sticker]");
        let once = wrote(json!({"viewOnce": true, "attachments": [
            {"contentType": "image/jpeg", "id": "a", "size": 9}]}));
        assert!(once.text.contains("seen once") && once.files.is_empty());
        let mention = json!({"message": "\u{FFFC} and \u{FFFC}: tea?", "mentions": [
            {"name": "+2", "number": "+2", "uuid": ADA, "start": 6, "length": 1},
            {"name": OURS, "number": null, "uuid": OURS, "start": 0, "length": 1}]});
        assert_eq!(wrote(mention).text, "@you and @+2: tea?");
        let quote = json!({"message": "yes", "quote": {"id": 1, "author": OURS, "authorNumber": "+1",
            "authorUuid": OURS, "text": "Tea?", "attachments": []}});
        assert_eq!(wrote(quote).quoted, Some(Quoted { by: "you".into(), text: "Tea?".into() }));
        let reacted = |of: &str, is_remove: bool| {
            read(
                Serves::All,
                envelope(json!({"dataMessage": message(json!({"reaction": {
                "emoji": "👍", "targetAuthorUuid": of, "targetSentTimestamp": 1,
                "isRemove": is_remove}}))})),
            )
        };
        let Happening::Wrote(written) = reacted(OURS, false) else { panic!("no reaction") };
        assert_eq!(written.text, "[answers a message of yours with 👍]");
        assert_eq!(reacted(OURS, true), Happening::Nothing);
        assert_eq!(reacted(ADA, false), Happening::Nothing);
    }

    #[test]
    fn what_programs_tell_each_other_is_nothing() {
        for more in [
            json!({}),
            json!({"receiptMessage": {"when": 1, "isRead": true, "timestamps": [1]}}),
            json!({"typingMessage": {"action": "STARTED", "timestamp": 1}}),
            json!({"dataMessage": message(json!({"isExpirationUpdate": true}))}),
            json!({"dataMessage": message(json!({"remoteDelete": {"timestamp": 1}}))}),
        ] {
            assert_eq!(read(Serves::All, envelope(more.clone())), Happening::Nothing, "{more}");
        }
        let group = |text: Value| {
            envelope(json!({"dataMessage": message(json!({"message": text,
                "groupInfo": {"groupId": "Zm9v=", "type": "UPDATE", "revision": 1}}))}))
        };
        let chat = Chat::group("Zm9v=");
        assert_eq!(read(Serves::All, group(json!(null))), Happening::Joined { chat: chat.clone() });
        let Happening::Wrote(written) = read(Serves::All, group(json!("hi"))) else { panic!() };
        assert_eq!(written.chat, chat);
    }
}
