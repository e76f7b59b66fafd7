//! Prints the OpenAPI document, or with the argument `events` the schema of events.
#![expect(clippy::print_stdout, reason = "its result is what it prints")]

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("events") => print!("{}", famulus_api::openapi::events()),
        Some(_) | None => print!("{}", famulus_api::openapi::document()),
    }
}
