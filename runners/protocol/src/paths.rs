//! The paths of version 1, made in one place for both sides.

use crate::CallId;

/// Whether the process serves; needs no bearer.
pub const ALIVE: &str = "/health";
pub const HEALTH: &str = "/v1/health";
pub const SELF_TEST: &str = "/v1/self-test";

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
