//! Writes the snapshots of everything that the operator makes, a file for each case.

#[path = "../tests/rendered/cases.rs"]
mod cases;

use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rendered/snapshots");
    fs::create_dir_all(&folder)?;
    for (name, text) in cases::all()? {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}
