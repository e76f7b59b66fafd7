//! What is published of the measurements, and what it is held against. A new figure is a line in one of these
//! files.

mod channels;
mod footprint;
mod plugins;
mod queue;
mod viewers;

use super::judge::{Figure, Mark};

/// Of what must not happen.
const NONE: Mark = Mark::Absolute(0.0);
/// In milliseconds.
const A_SECOND: Mark = Mark::Absolute(1_000.0);

/// In the order in which they are published.
pub(super) fn all() -> impl Iterator<Item = &'static Figure> {
    [queue::ALL, viewers::ALL, channels::ALL, plugins::ALL, footprint::ALL].into_iter().flatten()
}
