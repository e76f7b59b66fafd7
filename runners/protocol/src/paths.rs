//! The paths of version 1, made in one place for both sides.

use crate::CallId;

/// Whether the process serves; needs no bearer.
pub const ALIVE: &str = "/health";
pub const HEALTH: &str = "/v1/health";
pub const SELF_TEST: &str = "/v1/self-test";
/// A tar of what the plugin keeps beside its code: given while no call runs, and taken once before it
/// serves. For the bearer of backups alone.
pub const OWN_FILES: &str = "/v1/own-files";
/// What the plugin's owner configured, as JSON. For the bearer of backups alone.
pub const CONFIGURATION: &str = "/v1/configuration";

pub fn call(id: &CallId) -> String {
    format!("/v1/calls/{id}")
}

pub fn upload(id: &CallId, index: u32) -> String {
    format!("/v1/calls/{id}/uploads/{index}")
}

pub fn progress(id: &CallId) -> String {
    format!("/v1/calls/{id}/progress")
}

pub fn file(id: &CallId, index: u32) -> String {
    format!("/v1/calls/{id}/files/{index}")
}

pub fn cancel(id: &CallId) -> String {
    format!("/v1/calls/{id}/cancel")
}

pub fn acknowledge(id: &CallId) -> String {
    format!("/v1/calls/{id}/acknowledge")
}

/// Where the app says that it is there; needs nothing.
pub const PING: &str = "/internal/v1/ping";

/// Where the app takes and gives the bundle of a revision, by its digits.
pub fn bundle(hex: &str) -> String {
    format!("/internal/v1/revisions/{hex}/bundle")
}

/// Where the app takes what a revision is.
pub fn description(hex: &str) -> String {
    format!("/internal/v1/revisions/{hex}/description")
}
