//! What the assistant knows: memories (carried in every turn) and scratchpad pages (read on demand).

use crate::StoreError;
use crate::clock::Rfc3339;
use crate::ids::{KnowledgeId, PersonId};
use crate::tool::CallKey;
use async_trait::async_trait;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnowledgeKind {
    Memory,
    Scratchpad,
}

impl KnowledgeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Scratchpad => "scratchpad",
        }
    }
}

/// One memory or page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Knowledge {
    pub id: KnowledgeId,
    pub kind: KnowledgeKind,
    /// Empty for a memory.
    pub title: String,
    pub body: String,
    #[schemars(with = "Rfc3339")]
    pub created_at: Timestamp,
    #[schemars(with = "Rfc3339")]
    pub updated_at: Timestamp,
}

/// What is to be stored: a new entry, or new content for an old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upsert {
    pub id: Option<KnowledgeId>,
    pub kind: KnowledgeKind,
    pub title: String,
    pub body: String,
}

/// Where knowledge is kept. Writes carry the call's key and happen once for it.
#[async_trait]
pub trait KnowledgeStore: Send + Sync + 'static {
    /// Everything of a person in order of creation; scratchpad bodies are left empty.
    async fn digest(&self, person: PersonId) -> Result<Vec<Knowledge>, StoreError>;
    async fn read(
        &self,
        person: PersonId,
        id: KnowledgeId,
    ) -> Result<Option<Knowledge>, StoreError>;
    /// Returns `None` when the id to replace is not there.
    async fn upsert(
        &self,
        person: PersonId,
        key: CallKey,
        entry: Upsert,
    ) -> Result<Option<Knowledge>, StoreError>;
    /// Returns whether it was there.
    async fn delete(
        &self,
        person: PersonId,
        key: CallKey,
        id: KnowledgeId,
    ) -> Result<bool, StoreError>;
}
