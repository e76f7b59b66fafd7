//! The methods, each with what it refuses.

use crate::html::{Entity, parse};
use crate::parameters::Parameters;
use crate::server::Shared;
use crate::world::{Kind, Message, World};
use crate::{files, updates};
use serde_json::{Value, json};

/// UTF-16 units of a text, and of one below a file.
const TEXT: usize = 4096;
const CAPTION: usize = 1024;
/// Bytes of a button's data, and of what a press shows.
const DATA: usize = 64;
const SHOWN: usize = 200;
/// Bytes of a picture, and of any other file.
const PHOTO_BYTES: usize = 10_000_000;
const FILE_BYTES: usize = 50_000_000;

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Done(Value),
    Refused { code: u16, description: String, parameters: Value },
}

impl Reply {
    pub(crate) fn refused(code: u16, description: &str) -> Self {
        Self::Refused { code, description: description.to_owned(), parameters: json!({}) }
    }
}

type Done = Result<Value, Reply>;

fn bad(description: &str) -> Reply {
    Reply::refused(400, &format!("Bad Request: {description}"))
}

pub(crate) async fn call(shared: &Shared, method: &str, parameters: Parameters) -> Reply {
    if method == "getupdates" {
        return updates::get(shared, &parameters).await;
    }
    let done = match method {
        "getme" => Ok(shared.world().bot_json()),
        "deletewebhook" => {
            shared.world().webhook = None;
            Ok(json!(true))
        }
        "setmycommands" => commands(&parameters),
        "sendmessage" => send_text(&mut shared.world(), &parameters),
        "sendphoto" | "senddocument" | "sendvoice" | "sendaudio" | "sendvideo"
        | "sendanimation" => {
            send_file(&mut shared.world(), method.trim_start_matches("send"), &parameters)
        }
        "editmessagetext" => edit_text(&mut shared.world(), &parameters),
        "editmessagereplymarkup" => edit_buttons(&mut shared.world(), &parameters),
        "deletemessage" => delete(&mut shared.world(), &parameters),
        "sendchataction" => action(&mut shared.world(), &parameters),
        "sendmessagedraft" => draft(&mut shared.world(), &parameters),
        "answercallbackquery" => answer(&mut shared.world(), &parameters),
        "leavechat" => leave(&mut shared.world(), &parameters),
        "getfile" => {
            let handle = parameters.text("file_id").unwrap_or_default();
            files::path_of(shared, &handle).map_err(|description| Reply::refused(400, &description))
        }
        _ => Err(Reply::refused(404, "Not Found: method not found")),
    };
    done.map_or_else(|refused| refused, Reply::Done)
}

/// Where something goes, if it may.
fn target(world: &World, parameters: &Parameters) -> Result<i64, Reply> {
    let chat = parameters.number("chat_id").ok_or_else(|| bad("chat not found"))?;
    if let Some(to) = world.moved.get(&chat) {
        return Err(Reply::Refused {
            code: 400,
            description: "Bad Request: group chat was upgraded to a supergroup chat".to_owned(),
            parameters: json!({"migrate_to_chat_id": to}),
        });
    }
    if world.blocked.contains(&chat) {
        return Err(Reply::refused(403, "Forbidden: bot was blocked by the user"));
    }
    // Nobody can be written to who did not write first.
    if !world.next_message.contains_key(&chat) {
        return Err(if chat > 0 {
            Reply::refused(403, "Forbidden: bot can't initiate conversation with a user")
        } else {
            bad("chat not found")
        });
    }
    Ok(chat)
}

/// A text with its styles, as it is shown.
fn written(parameters: &Parameters, name: &str) -> Result<(String, Vec<Entity>), Reply> {
    let raw = parameters.text(name).unwrap_or_default();
    let (text, entities) = match parameters.text("parse_mode").as_deref() {
        Some("HTML") => parse(&raw).map_err(|description| Reply::refused(400, &description))?,
        Some(_) => return Err(bad("unsupported parse_mode")),
        None => (raw, Vec::new()),
    };
    Ok((text, entities))
}

fn buttons(parameters: &Parameters) -> Result<Vec<Vec<(String, String)>>, Reply> {
    let Some(markup) = parameters.structure("reply_markup") else { return Ok(Vec::new()) };
    let rows = markup["inline_keyboard"].as_array().cloned().unwrap_or_default();
    let mut buttons = Vec::new();
    for row in rows {
        let mut line = Vec::new();
        for button in row.as_array().cloned().unwrap_or_default() {
            let text = button["text"].as_str().unwrap_or_default().to_owned();
            let data = button["callback_data"].as_str().unwrap_or_default().to_owned();
            if text.is_empty() || data.is_empty() || data.len() > DATA {
                return Err(bad("BUTTON_DATA_INVALID"));
            }
            line.push((text, data));
        }
        buttons.push(line);
    }
    Ok(buttons)
}

fn reply_to(parameters: &Parameters) -> Option<i64> {
    let asked = parameters.structure("reply_parameters")?;
    asked["message_id"].as_i64()
}

fn thread(parameters: &Parameters) -> Result<Option<i64>, Reply> {
    match parameters.number("message_thread_id") {
        Some(1) => Err(bad("message thread not found")),
        other => Ok(other),
    }
}

fn store(world: &mut World, message: Message) -> Value {
    let shown = json!({
        "message_id": message.id, "date": updates::now(), "chat": {"id": message.chat},
        "text": message.text,
    });
    world.messages.push(message);
    shown
}

fn send_text(world: &mut World, parameters: &Parameters) -> Done {
    let chat = target(world, parameters)?;
    let (text, entities) = written(parameters, "text")?;
    if text.trim().is_empty() {
        return Err(bad("message text is empty"));
    }
    if text.encode_utf16().count() > TEXT {
        return Err(bad("message is too long"));
    }
    let (buttons, thread) = (buttons(parameters)?, thread(parameters)?);
    let id = world.message_id(chat);
    let reply_to = reply_to(parameters);
    let kind = Kind::Text;
    Ok(store(
        world,
        Message { id, chat, thread, reply_to, kind, text, entities, buttons, edits: 0 },
    ))
}

fn send_file(world: &mut World, field: &str, parameters: &Parameters) -> Done {
    let chat = target(world, parameters)?;
    let (text, entities) = written(parameters, "caption")?;
    if text.encode_utf16().count() > CAPTION {
        return Err(bad("message caption is too long"));
    }
    let upload = parameters.uploads.get(field);
    let upload = upload.ok_or_else(|| bad(&format!("there is no {field} in the request")))?;
    let most = if field == "photo" { PHOTO_BYTES } else { FILE_BYTES };
    if upload.bytes.is_empty() {
        return Err(bad("file must be non-empty"));
    }
    if upload.bytes.len() > most {
        return Err(Reply::refused(413, "Request Entity Too Large"));
    }
    let kind = Kind::File {
        field: field.to_owned(),
        name: upload.name.clone(),
        media_type: upload.media_type.clone(),
        bytes: upload.bytes.clone(),
    };
    let (buttons, thread) = (buttons(parameters)?, thread(parameters)?);
    let id = world.message_id(chat);
    let reply_to = reply_to(parameters);
    Ok(store(
        world,
        Message { id, chat, thread, reply_to, kind, text, entities, buttons, edits: 0 },
    ))
}

fn find<'a>(world: &'a mut World, parameters: &Parameters) -> Option<&'a mut Message> {
    let (chat, id) = (parameters.number("chat_id")?, parameters.number("message_id")?);
    world.messages.iter_mut().find(|message| (message.chat, message.id) == (chat, id))
}

fn edit_text(world: &mut World, parameters: &Parameters) -> Done {
    target(world, parameters)?;
    let (text, entities) = written(parameters, "text")?;
    let buttons = buttons(parameters)?;
    if text.trim().is_empty() {
        return Err(bad("message text is empty"));
    }
    if text.encode_utf16().count() > TEXT {
        return Err(bad("message is too long"));
    }
    let message = find(world, parameters).ok_or_else(|| bad("message to edit not found"))?;
    if (&message.text, &message.entities, &message.buttons) == (&text, &entities, &buttons) {
        return Err(bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
        ));
    }
    message.text = text;
    message.entities = entities;
    message.buttons = buttons;
    message.edits += 1;
    Ok(json!({"message_id": message.id, "date": updates::now(), "chat": {"id": message.chat}}))
}

fn edit_buttons(world: &mut World, parameters: &Parameters) -> Done {
    target(world, parameters)?;
    let buttons = buttons(parameters)?;
    let message = find(world, parameters).ok_or_else(|| bad("message to edit not found"))?;
    if message.buttons == buttons {
        return Err(bad("message is not modified: the reply markup is the same"));
    }
    message.buttons = buttons;
    message.edits += 1;
    Ok(json!({"message_id": message.id, "date": updates::now(), "chat": {"id": message.chat}}))
}

fn delete(world: &mut World, parameters: &Parameters) -> Done {
    let asked = parameters.number("chat_id").zip(parameters.number("message_id"));
    let asked = asked.ok_or_else(|| bad("message identifier is not specified"))?;
    if find(world, parameters).is_some() {
        world.messages.retain(|message| (message.chat, message.id) != asked);
        return Ok(json!(true));
    }
    if !world.written.contains(&asked) {
        return Err(bad("message to delete not found"));
    }
    // What others wrote a bot deletes in the chat with them alone.
    if asked.0 < 0 {
        return Err(bad("message can't be deleted"));
    }
    world.written.remove(&asked);
    world.deleted.push(asked);
    Ok(json!(true))
}

fn action(world: &mut World, parameters: &Parameters) -> Done {
    let chat = target(world, parameters)?;
    let action = parameters.text("action").unwrap_or_default();
    let known = ["typing", "upload_photo", "record_voice", "upload_voice", "upload_document"];
    if !known.contains(&action.as_str()) {
        return Err(bad("wrong parameter action in request"));
    }
    world.actions.push((chat, action));
    Ok(json!(true))
}

fn draft(world: &mut World, parameters: &Parameters) -> Done {
    let chat = target(world, parameters)?;
    if chat < 0 {
        return Err(bad("method is available only in private chats"));
    }
    if parameters.number("draft_id").is_none_or(|draft| draft == 0) {
        return Err(bad("DRAFT_ID_INVALID"));
    }
    let (text, _entities) = written(parameters, "text")?;
    if text.encode_utf16().count() > TEXT {
        return Err(bad("message is too long"));
    }
    world.drafts.push((chat, text));
    Ok(json!(true))
}

fn answer(world: &mut World, parameters: &Parameters) -> Done {
    let id = parameters.text("callback_query_id").unwrap_or_default();
    let shown = parameters.text("text").unwrap_or_default();
    if !id.starts_with("press-") || world.answered.iter().any(|(answered, _)| *answered == id) {
        return Err(bad("query is too old and response timeout expired or query ID is invalid"));
    }
    if shown.chars().count() > SHOWN {
        return Err(bad("MESSAGE_TOO_LONG"));
    }
    world.answered.push((id, shown));
    Ok(json!(true))
}

fn leave(world: &mut World, parameters: &Parameters) -> Done {
    let chat = parameters.number("chat_id").ok_or_else(|| bad("chat not found"))?;
    if chat > 0 {
        return Err(bad("chat member status can't be changed in private chats"));
    }
    world.left.push(chat);
    Ok(json!(true))
}

fn commands(parameters: &Parameters) -> Done {
    let commands = parameters.structure("commands").unwrap_or_default();
    let commands = commands.as_array().cloned().unwrap_or_default();
    let is_sound = |command: &Value| {
        let name = command["command"].as_str().unwrap_or_default();
        let described = command["description"].as_str().unwrap_or_default();
        (1..=32).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && (1..=256).contains(&described.chars().count())
    };
    if commands.len() > 100 || !commands.iter().all(is_sound) {
        return Err(bad("BOT_COMMAND_INVALID"));
    }
    Ok(json!(true))
}
