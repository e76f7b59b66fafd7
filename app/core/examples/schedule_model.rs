//! Runs the schedule model for longer than a test may take.
//!
//! ```text
//! cargo run --release -p famulus-core --example schedule_model -- FIRST_SEED SEEDS LAST_YEAR
//! ```
//!
//! Stops at the first disagreement and names the seed that shows it again.
#![expect(clippy::print_stdout, reason = "its result is what it prints")]

#[path = "../tests/schedule/life.rs"]
mod life;
#[path = "../tests/schedule/model.rs"]
mod model;

use std::process::ExitCode;

const FIRST_YEAR: i64 = 2025;
const EXPRESSIONS_PER_ZONE: usize = 10;

fn main() -> ExitCode {
    let numbers: Vec<u64> =
        std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [first_seed, seeds, last_year] = numbers[..] else {
        println!("usage: schedule_model FIRST_SEED SEEDS LAST_YEAR (for example 1 100 2028)");
        return ExitCode::FAILURE;
    };
    let mut total = life::Tally::default();
    for seed in first_seed..first_seed + seeds {
        match life::run(seed, EXPRESSIONS_PER_ZONE, (FIRST_YEAR, last_year as i64)) {
            Ok(tally) => total.add(&tally),
            Err(error) => {
                println!("{error}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{seeds} seeds, {FIRST_YEAR} to {last_year}, {} zones: {} slots fired, {} missed, {} decisions lost in crashes and made again",
        model::ZONES.len(),
        total.fired,
        total.missed,
        total.lost,
    );
    ExitCode::SUCCESS
}
