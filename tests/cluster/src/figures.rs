//! Figures of a bench: parts of rounds, and how far the rounds were apart.

use std::time::Duration;

/// The time that this part of all did not exceed; sorts them. None is a fault of the caller.
pub fn percentile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * part).round() as usize]
}

/// The median of the rounds with their range, of figures of any unit.
pub fn told(mut figures: Vec<f64>) -> String {
    figures.sort_unstable_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    format!("{:.2} ({least:.2} to {most:.2})", figures[figures.len() / 2])
}
