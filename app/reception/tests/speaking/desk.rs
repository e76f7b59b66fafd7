//! A desk that notes everything, and knows three people.

use crate::managed::Managed;
use async_trait::async_trait;
use bytes::Bytes;
use famulus_core::{
    StoreError,
    accept::{Accept, AcceptError, Accepted, Disposition, Replaced},
    approval::{Approval, ApprovalState, Approvals, Asked as AskedOf, Decide, Decided},
    blob::{BlobError, BlobRef, Blobs},
    clock::SystemClock,
    conversation::{Conversations, NewConversation},
    event::{Envelope, EventId, List, Viewers},
    ids::{AgentId, ApprovalId, BlobId, ConversationId, IdentityId, MessageId, PersonId, TurnId},
    inbound::{Address, Chat, ChatKind, Inbound},
    intake::{
        Account, FetchError, Happening, Keep, ListenError, Listener, Press, RemoteFile, Writer,
        Written,
    },
    pairing::{Access, Asked, Identities, Known, Stranger, Tell},
    person::{Caller, Person, Role, Scope},
};
use famulus_reception::{Arrivals, Arrived, Door, Reception};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CODE: [u8; 8] = [0; 8];

/// A message of the installation's own.
#[derive(Debug)]
pub(crate) struct Told {
    key: String,
    pub(crate) chat: String,
    pub(crate) person: Option<PersonId>,
    pub(crate) words: String,
}

#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) people: Mutex<HashMap<String, Known>>,
    pub(crate) accepted: Mutex<Vec<Inbound>>,
    pub(crate) told: Mutex<Vec<Told>>,
    pub(crate) coded: Mutex<Vec<(String, String)>>,
    /// What becomes of a change.
    pub(crate) replaced: Mutex<Option<Replaced>>,
    /// Whom a secret invites.
    pub(crate) invited: Mutex<HashMap<String, &'static str>>,
    pub(crate) homes: Mutex<Vec<IdentityId>>,
    pub(crate) stopped: Mutex<Vec<PersonId>>,
    pub(crate) decided: Mutex<Vec<(PersonId, Scope, String, bool)>>,
    pub(crate) files: Mutex<Vec<Vec<u8>>>,
    /// After how long messages are to be gone.
    pub(crate) vanishing: Mutex<Vec<Duration>>,
    /// The keys of messages that were deleted, while the platform deletes.
    pub(crate) deleted: Mutex<Vec<String>>,
    pub(crate) deletes: Mutex<bool>,
    /// Files of the platform, by handle.
    pub(crate) remote: Mutex<HashMap<String, Vec<u8>>>,
}

pub(crate) struct Bench {
    pub(crate) desk: Arc<Desk>,
    pub(crate) managed: Arc<Managed>,
    pub(crate) arrivals: Arrivals,
    pub(crate) door: Door,
}

/// Whom the desk knows, by their account.
pub(crate) const PEOPLE: [(&str, Role, bool); 5] = [
    ("owner", Role::Owner, false),
    ("member", Role::Member, false),
    ("contact", Role::Contact, false),
    ("gone owner", Role::Owner, true),
    ("gone member", Role::Member, true),
];

impl Bench {
    pub(crate) fn new(access: Access, listed: &[&str]) -> Self {
        let desk = Arc::new(Desk::default());
        for (id, role, is_disabled) in PEOPLE {
            desk.people.lock().insert(id.to_owned(), known(id, role, is_disabled));
        }
        let managed = Arc::<Managed>::default();
        let reception = Reception {
            desk: desk.clone(),
            viewers: desk.clone(),
            clock: Arc::new(SystemClock),
            managed: managed.clone(),
        };
        let arrivals = Arrivals { reception, identities: desk.clone(), tell: desk.clone() };
        let door = Door {
            channel: "pigeon".into(),
            account: "loft".into(),
            access,
            listed: listed.iter().map(ToString::to_string).collect(),
            owner_acts: true,
            file_bytes: 1_000,
            day_bytes: 1_000_000,
            waits_for_files: true,
            agent: AgentId::new(),
        };
        Self { desk, managed, arrivals, door }
    }

    pub(crate) async fn arrive(&self, written: &[Written]) -> Arrived {
        self.arrive_with(written, CODE).await
    }

    pub(crate) async fn arrive_with(&self, written: &[Written], random: [u8; 8]) -> Arrived {
        let platform: &dyn Listener = self.desk.as_ref();
        self.arrivals.arrive(&self.door, written, platform, random).await.unwrap()
    }

    /// As it is heard, before anything is stored: whether nothing is left to be stored.
    pub(crate) async fn hear(&self, written: &Written) -> Result<bool, StoreError> {
        self.arrivals.configure(&self.door, written, self.desk.as_ref()).await
    }

    pub(crate) fn person(&self, id: &str) -> PersonId {
        self.desk.people.lock()[id].person.id
    }
}

pub(crate) fn known(name: &str, role: Role, is_disabled: bool) -> Known {
    Known {
        identity: IdentityId::new(),
        person: Person {
            id: PersonId::new(),
            name: name.to_owned(),
            role,
            time_zone: "Europe/Berlin".into(),
            language: "en".into(),
        },
        is_disabled,
    }
}

/// A message in a direct chat.
pub(crate) fn written(from: &str, text: &str) -> Written {
    let chat = Chat { id: format!("chat of {from}"), kind: ChatKind::Direct };
    Written {
        key: format!("{}/1", chat.id),
        from: Writer { id: from.to_owned(), name: from.to_owned(), language: Some("de".into()) },
        reply: Address {
            channel: "pigeon".into(),
            account: "loft".into(),
            chat: chat.id.clone(),
            thread: None,
            reply_to: None,
        },
        chat,
        text: text.to_owned(),
        forwarded: None,
        quoted: None,
        files: Vec::new(),
        album: None,
        edits: None,
        vanishes_after: None,
        written_at: Timestamp::UNIX_EPOCH,
    }
}

#[async_trait]
impl Accept for Desk {
    async fn accept(&self, inbound: Inbound) -> Result<Accepted, AcceptError> {
        let mut all = self.accepted.lock();
        let again = all.iter().any(|one| one.external_id == inbound.external_id);
        if !again {
            all.push(inbound);
        }
        Ok(Accepted {
            conversation: ConversationId::new(),
            message: MessageId::new(),
            turn: TurnId::new(),
            disposition: if again { Disposition::Duplicate } else { Disposition::Started },
        })
    }

    async fn replace(&self, original: &str, inbound: &Inbound) -> Result<Replaced, StoreError> {
        let replaced = self.replaced.lock().unwrap_or(Replaced::No);
        let mut all = self.accepted.lock();
        let known = all.iter_mut().find(|one| one.external_id.as_deref() == Some(original));
        match (replaced, known) {
            (Replaced::Done, Some(known)) => known.text.clone_from(&inbound.text),
            (Replaced::Done | Replaced::Same | Replaced::No, _) => {}
        }
        Ok(replaced)
    }

    async fn vanishes(&self, _: MessageId, after: Duration) -> Result<(), StoreError> {
        self.vanishing.lock().push(after);
        Ok(())
    }
}

#[async_trait]
impl Approvals for Desk {
    async fn decide(
        &self,
        caller: &Caller,
        which: &Decide,
        yes: bool,
        _: &str,
    ) -> Result<Decided, StoreError> {
        let Decide::Code(code) = which else { panic!("by a code") };
        let approval = Approval {
            id: ApprovalId::new(),
            conversation: ConversationId::new(),
            turn: TurnId::new(),
            person: caller.person.id,
            person_name: caller.person.name.clone(),
            asked: AskedOf::Owner,
            code: code.clone(),
            tool: "tool".into(),
            summary: "do it".into(),
            shown: "tool {}".into(),
            state: ApprovalState::Pending,
            expires_at: Timestamp::UNIX_EPOCH,
        };
        if code != "GOODCODE" {
            return Ok(Decided::Missing);
        }
        if !approval.rights(caller).cover(yes) {
            return Ok(Decided::NotTheirs(approval));
        }
        self.decided.lock().push((caller.person.id, caller.scope, code.clone(), yes));
        Ok(Decided::Done(approval))
    }
}

#[async_trait]
impl Conversations for Desk {
    async fn has(&self, _: PersonId, _: ConversationId) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn open(&self, _: PersonId, _: NewConversation) -> Result<ConversationId, StoreError> {
        Ok(ConversationId::new())
    }

    async fn stop(
        &self,
        host: PersonId,
        _: Option<PersonId>,
        _: ConversationId,
    ) -> Result<Vec<TurnId>, StoreError> {
        self.stopped.lock().push(host);
        Ok(vec![TurnId::new()])
    }
}

#[async_trait]
impl Blobs for Desk {
    async fn put(
        &self,
        _: PersonId,
        mime: &str,
        limit: u64,
        bytes: BoxStream<'_, std::io::Result<Bytes>>,
    ) -> Result<BlobRef, BlobError> {
        let pieces: Vec<Bytes> = bytes.try_collect().await.map_err(BlobError::Cut)?;
        let whole = pieces.concat();
        if whole.len() as u64 > limit {
            return Err(BlobError::TooLarge { limit });
        }
        let size = whole.len() as u64;
        self.files.lock().push(whole);
        let (id, sha256) = (BlobId::new(), "0".repeat(64));
        Ok(BlobRef { id, sha256, mime: mime.to_owned(), size })
    }

    async fn get(
        &self,
        _: PersonId,
        id: BlobId,
    ) -> Result<(BlobRef, BoxStream<'static, Result<Bytes, BlobError>>), BlobError> {
        Err(BlobError::Missing { id })
    }
}

impl Viewers for Desk {
    fn publish(&self, _: &Arc<Envelope>) {}

    fn stored(&self, _: ConversationId, _: EventId) {}

    fn list_changed(&self, _: PersonId, _: List) {}
}

#[async_trait]
impl Identities for Desk {
    async fn whose(&self, _: &str, _: &str, id: &str) -> Result<Option<Known>, StoreError> {
        Ok(self.people.lock().get(id).cloned())
    }

    async fn seen(&self, _: IdentityId, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn at_home(&self, identity: IdentityId) -> Result<(), StoreError> {
        self.homes.lock().push(identity);
        Ok(())
    }

    async fn kept_within_a_day(&self, _: PersonId) -> Result<u64, StoreError> {
        Ok(self.files.lock().iter().map(|file| file.len() as u64).sum())
    }

    async fn ask_in(&self, stranger: &Stranger, code: &str) -> Result<Asked, StoreError> {
        let mut coded = self.coded.lock();
        let known = coded.iter().find(|(id, _)| *id == stranger.external_id);
        match known {
            Some((_, theirs)) if theirs == code => Ok(Asked::Coded),
            Some(_) => Ok(Asked::Silent),
            None => {
                coded.push((stranger.external_id.clone(), code.to_owned()));
                Ok(Asked::Coded)
            }
        }
    }

    async fn join(&self, stranger: &Stranger, secret: &str) -> Result<Option<Known>, StoreError> {
        let Some(invited) = self.invited.lock().remove(secret) else { return Ok(None) };
        let mut people = self.people.lock();
        let known = Known { identity: IdentityId::new(), ..people[invited].clone() };
        people.insert(stranger.external_id.clone(), known.clone());
        Ok(Some(known))
    }

    async fn let_in(&self, stranger: &Stranger) -> Result<Known, StoreError> {
        let id = stranger.external_id.clone();
        let fresh = || known(&stranger.name, Role::Contact, false);
        Ok(self.people.lock().entry(id).or_insert_with(fresh).clone())
    }
}

#[async_trait]
impl Tell for Desk {
    async fn tell(
        &self,
        key: &str,
        to: &Address,
        person: Option<PersonId>,
        markdown: &str,
    ) -> Result<(), StoreError> {
        let mut told = self.told.lock();
        if !told.iter().any(|known| known.key == key) {
            let (key, words) = (key.to_owned(), markdown.to_owned());
            told.push(Told { key, chat: to.chat.clone(), person, words });
        }
        Ok(())
    }

    async fn told(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.told.lock().iter().any(|known| known.key == key))
    }
}

#[async_trait]
impl Listener for Desk {
    async fn account(&self) -> Result<Account, ListenError> {
        Ok(Account { id: "loft".to_owned(), name: None, link: None })
    }

    async fn listen(&self, _: Option<String>, _: &dyn Keep) -> ListenError {
        std::future::pending().await
    }

    fn read(&self, _: &str, _: &[u8]) -> Happening {
        Happening::Nothing
    }

    async fn answer_press(&self, _: &Press, _: Option<&str>) -> Result<(), ListenError> {
        Ok(())
    }

    async fn delete(&self, written: &Written) -> Result<(), ListenError> {
        if !*self.deletes.lock() {
            let reason = "it is too old".to_owned();
            return Err(ListenError::Passing { reason, after: None });
        }
        self.deleted.lock().push(written.key.clone());
        Ok(())
    }

    async fn leave(&self, _: &str) -> Result<(), ListenError> {
        Ok(())
    }

    async fn fetch(
        &self,
        file: &RemoteFile,
    ) -> Result<BoxStream<'static, std::io::Result<Bytes>>, FetchError> {
        match file.handle.as_str() {
            "later" => Err(FetchError::Passing { reason: "it is busy".into() }),
            "never" => Err(FetchError::Lasting { reason: "it is gone".into() }),
            handle => {
                let bytes = self.remote.lock()[handle].clone();
                Ok(futures::stream::iter([Ok(Bytes::from(bytes))]).boxed())
            }
        }
    }
}
