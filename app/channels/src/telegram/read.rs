//! Updates become what happened, in core's words. Pure.

use super::NAME;
use super::content::{files, quoted, text};
use super::wire::{ChatType, Message, Origin, Press as Pressed, Update, User};
use famulus_core::{
    inbound::{Address, Chat, ChatKind},
    intake::{Happening, Press, Writer, Written},
};
use jiff::Timestamp;

/// Users who are nobody: an admin without a name, a channel, Telegram's own service.
const NOBODY: [i64; 3] = [1_087_968_824, 136_817_688, 777_000];
/// The thread of a forum that has no topic: a message cannot be sent there by this number.
const GENERAL: i64 = 1;

/// What an update of an account tells.
pub(super) fn happening(account: &str, update: Update) -> Happening {
    let Update { message, edited_message, callback_query, my_chat_member, .. } = update;
    if let Some(pressed) = callback_query {
        return press(pressed);
    }
    if let Some(change) = my_chat_member {
        let status = change.new_chat_member.status.as_str();
        let is_in = !matches!(status, "left" | "kicked");
        return match change.chat.kind {
            ChatType::Private => Happening::Reach { chat: change.chat.id.to_string(), may: is_in },
            ChatType::Group | ChatType::Supergroup | ChatType::Channel | ChatType::Other => {
                if is_in {
                    Happening::Joined { chat: chat_of(&change.chat) }
                } else {
                    Happening::Nothing
                }
            }
        };
    }
    match (message, edited_message) {
        (Some(message), _) => written(account, message, false),
        (None, Some(message)) => written(account, message, true),
        (None, None) => Happening::Nothing,
    }
}

fn press(pressed: Pressed) -> Happening {
    let Some(code) = pressed.data else { return Happening::Nothing };
    if pressed.from.is_bot {
        return Happening::Nothing;
    }
    Happening::Pressed(Press {
        id: pressed.id,
        from: writer(&pressed.from),
        chat: pressed.message.map(|message| chat_of(&message.chat)),
        code,
    })
}

fn written(account: &str, message: Message, is_edit: bool) -> Happening {
    let chat = chat_of(&message.chat);
    if let Some(to) = message.migrate_to_chat_id {
        return Happening::Moved { from: chat.id, to: to.to_string() };
    }
    // Whoever writes in the name of a chat could be anybody.
    let Some(from) = message.from.as_ref().filter(|from| is_somebody(from)) else {
        return Happening::Nothing;
    };
    if message.sender_chat.is_some() {
        return Happening::Nothing;
    }
    // A place that moves is told once, where it began.
    if is_edit && message.location.is_some() {
        return Happening::Nothing;
    }
    let files = files(&message);
    let text = text(&message);
    if text.is_empty() && files.is_empty() {
        return Happening::Nothing;
    }
    let id = message.message_id;
    let original = format!("{}/{id}", chat.id);
    let (key, edits) = match message.edit_date.filter(|_| is_edit) {
        Some(edited) => (format!("{original}/{edited}"), Some(original)),
        None => (original, None),
    };
    let reply = Address {
        channel: NAME.to_owned(),
        account: account.to_owned(),
        chat: chat.id.clone(),
        thread: thread(&message),
        // In a direct chat it is plain what is answered.
        reply_to: (chat.kind == ChatKind::Group).then(|| id.to_string()),
    };
    let written_at = message.edit_date.filter(|_| is_edit).unwrap_or(message.date);
    Happening::Wrote(Box::new(Written {
        key,
        from: writer(from),
        reply,
        text,
        forwarded: message.forward_origin.as_ref().map(first_writer),
        quoted: quoted(&message),
        files,
        album: message.media_group_id.clone(),
        edits,
        vanishes_after: None,
        written_at: Timestamp::from_second(written_at).unwrap_or(Timestamp::UNIX_EPOCH),
        chat,
    }))
}

/// The platform's number of a message that was told.
pub(super) fn number(written: &Written) -> Option<i64> {
    let (_chat, number) = written.edits.as_ref().unwrap_or(&written.key).split_once('/')?;
    number.parse().ok()
}

fn is_somebody(user: &User) -> bool {
    !user.is_bot && !NOBODY.contains(&user.id)
}

pub(super) fn writer(user: &User) -> Writer {
    let last = user.last_name.as_deref().unwrap_or_default();
    let full = format!("{} {last}", user.first_name);
    let name = match (full.trim(), &user.username) {
        ("", Some(username)) => username.clone(),
        (name, _) => name.to_owned(),
    };
    Writer { id: user.id.to_string(), name, language: user.language_code.clone() }
}

fn chat_of(chat: &super::wire::Chat) -> Chat {
    let kind = match chat.kind {
        ChatType::Private => ChatKind::Direct,
        ChatType::Group | ChatType::Supergroup | ChatType::Channel | ChatType::Other => {
            ChatKind::Group
        }
    };
    Chat { id: chat.id.to_string(), kind }
}

/// Only a topic is a thread that can be written to.
fn thread(message: &Message) -> Option<String> {
    let thread = message.message_thread_id.filter(|_| message.is_topic_message)?;
    (thread != GENERAL).then(|| thread.to_string())
}

fn first_writer(origin: &Origin) -> String {
    let chat = origin.sender_chat.as_ref().or(origin.chat.as_ref());
    let of_chat = || chat.and_then(|chat| chat.title.clone());
    let of_user = origin.sender_user.as_ref().map(|user| writer(user).name);
    of_user
        .or_else(|| origin.sender_user_name.clone())
        .or_else(of_chat)
        .unwrap_or_else(|| "somebody".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::intake::Quoted;
    use serde_json::{Value, json};

    fn read(update: Value) -> Happening {
        happening("99", serde_json::from_value(update).unwrap())
    }

    fn private(more: Value) -> Value {
        let mut message = json!({
            "message_id": 5, "date": 1_700_000_000,
            "chat": {"id": 7, "type": "private", "first_name": "Ada"},
            "from": {"id": 7, "is_bot": false, "first_name": "Ada", "last_name": "L", "language_code": "en"},
        });
        let fields = message.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        message
    }

    fn wrote(update: Value) -> Written {
        let happening = read(update);
        let Happening::Wrote(written) = happening else { panic!("{happening:?}") };
        *written
    }

    #[test]
    fn a_text_is_told_with_who_wrote_it_and_where_a_reply_goes() {
        let written = wrote(json!({"update_id": 1, "message": private(json!({
            "text": "hot tea", "entities": [{"type": "bold", "offset": 0, "length": 3}]}))}));
        assert_eq!(written.text, "**hot** tea");
        assert_eq!((written.from.id.as_str(), written.from.name.as_str()), ("7", "Ada L"));
        assert_eq!(written.key, "7/5");
        assert_eq!(number(&written), Some(5));
        assert_eq!(
            written.reply,
            Address {
                channel: "telegram".into(),
                account: "99".into(),
                chat: "7".into(),
                thread: None,
                reply_to: None,
            }
        );
        assert_eq!(written.written_at.as_second(), 1_700_000_000);
    }

    #[test]
    fn an_edit_has_a_key_of_its_own() {
        let written = wrote(json!({"update_id": 1, "edited_message": private(json!({
            "text": "cold tea", "edit_date": 1_700_000_009}))}));
        assert_eq!(written.edits.as_deref(), Some("7/5"));
        assert_eq!(written.key, "7/5/1700000009");
        assert_eq!(number(&written), Some(5));
    }

    #[test]
    fn files_have_a_name_a_kind_and_a_size() {
        let one = |more: Value| {
            let written = wrote(json!({"update_id": 1, "message": private(more)}));
            let file = written.files.into_iter().next().unwrap();
            (file.handle, file.name, file.media_type, file.size, written.text)
        };
        let told = |handle: &str, name: &str, kind: &str, size, text: &str| {
            (handle.to_owned(), name.to_owned(), kind.to_owned(), size, text.to_owned())
        };
        assert_eq!(
            one(json!({"caption": "look", "photo": [
                {"file_id": "small", "file_unique_id": "s", "width": 90, "height": 60},
                {"file_id": "large", "file_unique_id": "l", "width": 900, "height": 600, "file_size": 9},
                {"file_id": "middle", "file_unique_id": "m", "width": 320, "height": 200}]})),
            told("large", "photo-l.jpg", "image/jpeg", Some(9), "look")
        );
        assert_eq!(
            one(json!({"voice": {"file_id": "v", "file_unique_id": "u", "duration": 3}})),
            told("v", "voice-u.ogg", "audio/ogg", None, "")
        );
        assert_eq!(
            one(json!({"document": {"file_id": "d", "file_unique_id": "u", "file_name": "a.pdf",
                "mime_type": "application/pdf", "file_size": 12}})),
            told("d", "a.pdf", "application/pdf", Some(12), "")
        );
    }

    #[test]
    fn what_has_no_words_is_told_in_words() {
        let said = |more: Value| wrote(json!({"update_id": 1, "message": private(more)})).text;
        assert_eq!(said(json!({"sticker": {"emoji": "🍵"}})), "[sticker 🍵]");
        let place = json!({"location": {"latitude": 52.5, "longitude": 13.25, "live_period": 60}});
        assert_eq!(said(place), "[place: 52.500000, 13.250000, which moves]");
        let answered = wrote(json!({"update_id": 1, "message": private(json!({
            "text": "yes", "reply_to_message": private(json!({"text": "Tea?"}))}))}));
        assert_eq!(answered.quoted, Some(Quoted { by: "Ada L".into(), text: "Tea?".into() }));
        let passed = wrote(json!({"update_id": 1, "message": private(json!({
            "text": "/stop", "forward_origin": {"type": "hidden_user", "sender_user_name": "Eve"}}))}));
        assert_eq!(passed.forwarded.as_deref(), Some("Eve"));
    }

    #[test]
    fn nobody_is_believed_who_writes_in_another_name() {
        let check = |message: Value| {
            assert_eq!(read(json!({"update_id": 1, "message": message})), Happening::Nothing);
        };
        check(private(json!({"text": "x", "from": {"id": 1_087_968_824, "is_bot": true}})));
        check(private(json!({"text": "x", "from": {"id": 136_817_688}})));
        check(private(json!({"text": "x", "sender_chat": {"id": -5, "type": "channel"}})));
        check(private(json!({"text": "x", "from": null})));
        check(private(json!({})));
        let edit = json!({"update_id": 1, "edited_message": private(json!({
            "edit_date": 1, "location": {"latitude": 1.0, "longitude": 1.0}}))});
        assert_eq!(read(edit), Happening::Nothing);
        assert_eq!(read(json!({"update_id": 1, "poll": {}})), Happening::Nothing);
    }

    #[test]
    fn topics_moves_and_blocks_are_told() {
        let topic = |thread: i64, is_topic: bool| {
            wrote(json!({"update_id": 1, "message": private(json!({"text": "x",
                "chat": {"id": -100, "type": "supergroup"}, "message_thread_id": thread,
                "is_topic_message": is_topic}))}))
            .reply
        };
        assert_eq!(topic(4, true).thread.as_deref(), Some("4"));
        assert_eq!(topic(4, false).thread, None);
        assert_eq!(topic(1, true).thread, None);
        assert_eq!(topic(4, true).reply_to.as_deref(), Some("5"));
        let moved =
            private(json!({"chat": {"id": -4, "type": "group"}, "migrate_to_chat_id": -1004}));
        assert_eq!(
            read(json!({"update_id": 1, "message": moved})),
            Happening::Moved { from: "-4".into(), to: "-1004".into() }
        );
        let member = |kind: &str, status: &str| {
            read(json!({"update_id": 1, "my_chat_member": {
                "chat": {"id": 7, "type": kind}, "from": {"id": 7},
                "new_chat_member": {"status": status}}}))
        };
        assert_eq!(member("private", "kicked"), Happening::Reach { chat: "7".into(), may: false });
        assert_eq!(member("private", "member"), Happening::Reach { chat: "7".into(), may: true });
        assert!(matches!(member("group", "member"), Happening::Joined { .. }));
        assert_eq!(member("group", "left"), Happening::Nothing);
    }

    #[test]
    fn a_press_tells_who_pressed_and_what() {
        let press = |from: Value| {
            read(
                json!({"update_id": 1, "callback_query": {"id": "q", "from": from, "data": "yes AB12",
                "chat_instance": "1",
                "message": {"message_id": 3, "date": 0, "chat": {"id": 7, "type": "private"}}}}),
            )
        };
        let Happening::Pressed(pressed) = press(json!({"id": 8, "first_name": "Bo"})) else {
            panic!("no press");
        };
        assert_eq!((pressed.id.as_str(), pressed.code.as_str()), ("q", "yes AB12"));
        assert_eq!(pressed.from.id, "8");
        assert_eq!(press(json!({"id": 8, "is_bot": true})), Happening::Nothing);
    }
}
