//! What a turn is driven with, and how far it comes.

use crate::{ask::Timeouts, prompt::Budget};
use famulus_core::{
    Clock, StoreError,
    blob::Blobs,
    event::{EventLog, Viewers},
    knowledge::KnowledgeStore,
    model::Model,
    outbound::Channel,
    speech::Transcriber,
    tool::Tools,
    turn::{TurnLog, TurnState},
};
use std::{collections::BTreeMap, sync::Arc};

/// Bounds of every turn.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub timeouts: Timeouts,
    pub budget: Budget,
    /// Seconds that a question stays open.
    pub approval_seconds: i64,
}

/// The turn loop with everything that it reaches.
#[derive(Clone)]
pub struct Driver {
    pub log: Arc<dyn TurnLog>,
    pub events: Arc<dyn EventLog>,
    pub viewers: Arc<dyn Viewers>,
    pub model: Arc<dyn Model>,
    /// Who listens to recordings that the model cannot hear.
    pub transcriber: Option<Arc<dyn Transcriber>>,
    pub tools: Arc<dyn Tools>,
    pub knowledge: Arc<dyn KnowledgeStore>,
    pub blobs: Arc<dyn Blobs>,
    pub clock: Arc<dyn Clock>,
    pub channels: Channels,
    pub limits: Limits,
}

/// The ways out, by name.
pub type Channels = Arc<BTreeMap<String, Arc<dyn Channel>>>;

/// How far a turn was driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    Ended(TurnState),
    /// It waits for somebody, and its worker is free.
    Parked,
    /// This process gave it up; another goes on from the record.
    Abandoned,
}

/// A turn could not be driven further by this worker.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("the turn's record could not be kept")]
    Record(#[from] StoreError),
}
