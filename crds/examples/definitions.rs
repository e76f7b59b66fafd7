//! Writes the definitions of the custom resources into `crds/generated`, a file for each kind.

use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    for definition in famulus_crds::definitions() {
        let file = folder.join(format!("{}.yaml", definition.spec.names.plural));
        let yaml = serde_saphyr::to_string(&definition)?;
        let how = "# Generated: cargo run -p famulus-crds --example definitions\n";
        fs::write(&file, format!("{how}---\n{yaml}"))?;
    }
    Ok(())
}
