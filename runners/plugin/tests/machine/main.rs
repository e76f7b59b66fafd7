//! Plugins on one machine: real runners in real sandboxes, found, started and ended by `famulus-machine`, and
//! called as the app calls them. The app behind their doors keeps bundles and takes results.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where it fails")]

mod app;
mod bench;
mod internet;
mod life;
mod lost;
mod private;
mod refused;
mod walls;
#[path = "../world/mod.rs"]
mod world;
