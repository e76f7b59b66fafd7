//! What people write on a platform: whose it is, whether they may speak, and what becomes of it.
//!
//! ```text
//! who? ─► nobody: a code, or silence
//!      └► somebody: a command? obeyed ─► files fetched ─► accepted, once
//! ```
//!
//! It may come twice, after a crash: each thing that is done has a key, and is done once.

use crate::{ReceiveError, Reception, words};
use famulus_core::{
    StoreError,
    accept::{AcceptError, Accepted, EDITED, Replaced},
    approval::{CODE_LENGTH, Decide, Decided},
    fence::fence,
    ids::AgentId,
    inbound::{ChatKind, Command, Inbound, Meeting, Source},
    intake::{FetchError, ListenError, Listener, Press, Writer, Written},
    pairing::{Access, Asked, Identities, Known, SECRET_LENGTH, Stranger, Tell, code_from},
    person::{Caller, Role, Scope},
    sent::{Entry, Sent, inbound},
};
use famulus_lifecycle::boxed;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Characters of what is passed on or quoted that are kept.
const KEPT: usize = 8_000;

/// What holds for one account of ours on a platform.
#[derive(Clone, Debug)]
pub struct Door {
    pub channel: String,
    pub account: String,
    pub access: Access,
    /// Who is let in without a code, as a contact, as [`Listener::lists`] reads it.
    pub listed: Vec<String>,
    /// Whether the owner's account there may do what only the owner may.
    pub owner_acts: bool,
    /// Bytes of a file that are fetched.
    pub file_bytes: u64,
    /// Bytes of the files of one person that are kept within a day.
    pub day_bytes: u64,
    /// Whether the message waits for a file that cannot be had now; else it comes without.
    pub waits_for_files: bool,
    pub agent: AgentId,
}

/// What became of what somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Somebody who may not speak, or a thing that is let be.
    Ignored,
    /// A stranger was told a code.
    Coded,
    /// It was answered at once, and is not kept.
    Answered,
    /// It changed a message that nobody has read, or nothing.
    Changed,
    /// We were told so, and leave.
    Group,
    Accepted(Accepted),
}

/// Why it was not received.
#[derive(Debug, thiserror::Error)]
pub enum ArriveError {
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// A file may be had later.
    #[error("a file could not be fetched")]
    Fetch(#[source] FetchError),
    /// The platform may say later who that is.
    #[error("whether the sender is listed is not known")]
    Listed(#[source] ListenError),
}

impl ArriveError {
    /// Whether the same may be received later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Fetch(_) | Self::Listed(_) => true,
            Self::Receive(error) => error.is_passing(),
        }
    }
}

impl From<StoreError> for ArriveError {
    fn from(error: StoreError) -> Self {
        Self::Receive(error.into())
    }
}

/// Where what people write on platforms is taken.
#[derive(Clone)]
pub struct Arrivals {
    pub reception: Reception,
    pub identities: Arc<dyn Identities>,
    pub tell: Arc<dyn Tell>,
}

impl Arrivals {
    /// Takes a message, which may have come in parts: an album is one. `random` makes a code, and is the
    /// same when the same message is taken again.
    ///
    /// # Errors
    /// Nothing came of it; the same may be taken again.
    #[boxed]
    pub async fn arrive(
        &self,
        door: &Door,
        parts: &[Written],
        platform: &dyn Listener,
        random: [u8; CODE_LENGTH],
    ) -> Result<Arrived, ArriveError> {
        let Some(first) = parts.first() else { return Ok(Arrived::Ignored) };
        if first.chat.kind == ChatKind::Group {
            let key = format!("{} group {}", door.channel, first.chat.id);
            self.tell.tell(&key, &first.reply, None, words::GROUP).await?;
            return Ok(Arrived::Group);
        }
        let known =
            match self.identities.whose(&door.channel, &door.account, &first.from.id).await? {
                Some(known) if known.is_disabled => return Ok(Arrived::Ignored),
                // They were let in after it was answered, and before that was settled.
                Some(_) if self.tell.told(&code_key(door, first)).await? => {
                    return Ok(Arrived::Coded);
                }
                Some(known) => known,
                None => match self.stranger(door, first, platform, random).await? {
                    Ok(known) => known,
                    Err(arrived) => return Ok(arrived),
                },
            };
        self.identities.seen(known.identity, &first.chat.id).await?;
        let caller = caller(door, &known);
        if let Some(answered) = self.command(&caller, &known, door, first, platform).await? {
            return Ok(answered);
        }
        let (attachments, missing) = self.fetched(door, &caller, parts, platform).await?;
        let text = text(parts, &missing);
        let sent = Sent {
            text,
            attachments,
            sender: None,
            source: Source::Channel(door.channel.clone()),
            conversation: None,
            agent: door.agent,
            key: Some(key(first)),
            meeting: Meeting::Steer,
            continues: None,
        };
        let entry = Entry { reply: first.reply.clone(), kind: first.chat.kind };
        let mut inbound = Inbound {
            sent_at: Some(first.written_at),
            // The platform's key names one message, however its files come out when they are fetched.
            body_hash: Sha256::digest(key(first)).into(),
            ..inbound(&caller.person, entry, sent, self.reception.clock.now())
        };
        if let Some(original) = &first.edits {
            match self.reception.desk.replace(original, &inbound).await? {
                Replaced::Done | Replaced::Same => return Ok(Arrived::Changed),
                // What others wrote is fenced, and stays as they wrote it.
                Replaced::No if first.forwarded.is_some() => {}
                Replaced::No => inbound.text.insert_str(0, EDITED),
            }
        }
        match self.reception.take(inbound).await {
            Ok(accepted) => {
                let after = parts.iter().filter_map(|part| part.vanishes_after).min();
                if let Some(after) = after {
                    self.reception.desk.vanishes(accepted.message, after).await?;
                }
                Ok(Arrived::Accepted(accepted))
            }
            Err(error @ (AcceptError::KeyReused { .. } | AcceptError::NoConversation { .. })) => {
                tracing::warn!(%error, channel = door.channel, "a message was let be");
                Ok(Arrived::Ignored)
            }
            Err(error @ (AcceptError::NoAttachment { .. } | AcceptError::Store(_))) => {
                Err(ArriveError::Receive(error.into()))
            }
        }
    }

    /// Takes a press of a button: an answer to a question, of whoever is asked. What it is told.
    ///
    /// # Errors
    /// Nothing came of it; the same may be taken again.
    #[boxed]
    pub async fn pressed(&self, door: &Door, press: &Press) -> Result<Option<String>, ArriveError> {
        let known = self.identities.whose(&door.channel, &door.account, &press.from.id).await?;
        let Some(known) = known.filter(|known| !known.is_disabled) else { return Ok(None) };
        let Some(command) = Command::parse(&press.code) else { return Ok(None) };
        let (code, yes) = match command {
            Command::Approve(code) => (code, true),
            Command::Deny(code) => (code, false),
            Command::Stop | Command::Configure(_) => return Ok(None),
        };
        let caller = caller(door, &known);
        let decided =
            self.reception.decide(&caller, &Decide::Code(code), yes, &door.channel).await?;
        Ok(Some(match decided {
            Decided::Done(approval) => {
                format!("{}: {}", if yes { "Approved" } else { "Denied" }, approval.summary)
            }
            Decided::Closed(state) => format!("Too late: it is {}.", state.word()),
            Decided::NotTheirs(_) => "This question is not yours to answer.".to_owned(),
            Decided::Missing => "There is no such question any more.".to_owned(),
        }))
    }

    /// A stranger is let in where the owner listed them, and gets a code or silence elsewhere.
    async fn stranger(
        &self,
        door: &Door,
        written: &Written,
        platform: &dyn Listener,
        random: [u8; CODE_LENGTH],
    ) -> Result<Result<Known, Arrived>, ArriveError> {
        let Writer { id, name, language } = &written.from;
        let stranger = Stranger {
            channel: door.channel.clone(),
            account: door.account.clone(),
            chat: Some(written.chat.id.clone()),
            external_id: id.clone(),
            name: name.clone(),
            language: language.clone(),
        };
        // Whoever has the owner's link is whom it is for, however strangers are met.
        if let Some(secret) = secret_in(written)
            && let Some(known) = self.identities.join(&stranger, secret).await?
        {
            let arrived = if known.is_disabled { Err(Arrived::Ignored) } else { Ok(known) };
            return Ok(arrived);
        }
        if platform.lists(&door.listed, id).await.map_err(ArriveError::Listed)? {
            return Ok(Ok(self.identities.let_in(&stranger).await?));
        }
        if door.access == Access::Allowlist || written.edits.is_some() {
            return Ok(Err(Arrived::Ignored));
        }
        let code = code_from(random);
        match self.identities.ask_in(&stranger, &code).await? {
            Asked::Silent => Ok(Err(Arrived::Ignored)),
            Asked::Coded => {
                let key = code_key(door, written);
                self.tell.tell(&key, &written.reply, None, &words::code(&code)).await?;
                Ok(Err(Arrived::Coded))
            }
        }
    }

    /// Obeys a command of the writer's own; nobody's else, and none that was changed into one.
    async fn command(
        &self,
        caller: &Caller,
        known: &Known,
        door: &Door,
        written: &Written,
        platform: &dyn Listener,
    ) -> Result<Option<Arrived>, ArriveError> {
        if written.forwarded.is_some() {
            return Ok(None);
        }
        let alone = written.files.is_empty();
        let here = Some(written.text.as_str()).filter(|_| alone).and_then(OnlyInChats::parse);
        let command = command_in(written);
        if command.is_none() && here.is_none() {
            return Ok(None);
        }
        if written.edits.is_some() {
            return Ok(Some(Arrived::Ignored));
        }
        let answer = match command {
            None => match here {
                Some(OnlyInChats::Home) => {
                    self.identities.at_home(known.identity).await?;
                    words::HOME.to_owned()
                }
                Some(OnlyInChats::Help) => words::help(),
                Some(OnlyInChats::Start) | None => words::hello(&caller.person.name),
            },
            Some(Command::Configure(asked)) => {
                self.configured(caller, written, platform, asked).await?
            }
            Some(command) => {
                let entry = Entry { reply: written.reply.clone(), kind: written.chat.kind };
                match self.reception.obey(caller, &entry, door.agent, None, command).await {
                    Ok((_conversation, outcome)) => outcome.to_string(),
                    Err(ReceiveError::NotTheirs(_)) => {
                        "This question is not yours to answer.".to_owned()
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let key = answer_key(door, written);
        let person = Some(caller.person.id);
        self.tell.tell(&key, &written.reply, person, &answer).await?;
        Ok(Some(Arrived::Answered))
    }
}

/// What is obeyed in chats, and nowhere else.
enum OnlyInChats {
    Start,
    Home,
    Help,
}

impl OnlyInChats {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "/start" || text.starts_with("/start ") {
            return Some(Self::Start);
        }
        let is = |command| text.eq_ignore_ascii_case(command);
        if is("/home") { Some(Self::Home) } else { is("/help").then_some(Self::Help) }
    }
}

/// The secret of an invitation, in the writer's own words.
fn secret_in(written: &Written) -> Option<&str> {
    let own = written.forwarded.is_none() && written.edits.is_none();
    let secret = written.text.strip_prefix("/start ").filter(|_| own)?.trim();
    let is_one = |secret: &&str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        secret.len() == SECRET_LENGTH && secret.bytes().all(fits)
    };
    Some(secret).filter(is_one)
}

/// What somebody wrote, where it is a command.
pub(crate) fn command_in(written: &Written) -> Option<Command> {
    let alone = written.files.is_empty();
    if alone { Command::parse(&written.text) } else { Command::beside_files(&written.text) }
}

pub(crate) fn caller(door: &Door, known: &Known) -> Caller {
    let acts = known.person.role == Role::Owner && door.owner_acts;
    let scope = if acts { Scope::Owner } else { Scope::Chat };
    Caller { person: known.person.clone(), token: None, scope }
}

/// By which the code of a stranger is told once.
fn code_key(door: &Door, written: &Written) -> String {
    format!("{} code {}", door.channel, written.key)
}

/// By which what somebody wrote is answered once.
pub(crate) fn answer_key(door: &Door, written: &Written) -> String {
    format!("{} answer {}", door.channel, written.key)
}

/// An album is one message, whichever of its parts comes first.
fn key(first: &Written) -> String {
    match &first.album {
        Some(album) => format!("{}/album {album}", first.chat.id),
        None => first.key.clone(),
    }
}

/// What a model reads: what others wrote stands in a fence, and nothing of it is the writer's word.
fn text(parts: &[Written], missing: &[String]) -> String {
    let mut text = String::new();
    for part in parts {
        let mut line = |piece: &str| {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(piece);
        };
        if let Some(quoted) = &part.quoted {
            let mut fenced = String::new();
            fence(&mut fenced, &words::quoted(&quoted.by), &quoted.text, KEPT);
            line(&fenced);
        }
        if part.text.is_empty() {
            continue;
        }
        match &part.forwarded {
            Some(by) => {
                let mut fenced = String::new();
                fence(&mut fenced, &words::forwarded(by), &part.text, KEPT);
                line(&fenced);
            }
            None => line(&part.text),
        }
    }
    for missing in missing {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(missing);
    }
    text
}
