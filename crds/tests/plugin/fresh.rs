//! The committed definitions are those of the types.

use std::fs;
use std::path::Path;

use serde_json::Value;

#[test]
fn the_committed_definitions_are_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    let mut files: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut expected = Vec::new();
    for definition in famulus_crds::definitions() {
        let file = format!("{}.yaml", definition.spec.names.plural);
        let committed = fs::read_to_string(folder.join(&file)).unwrap();
        let committed: Value = serde_saphyr::from_str(&committed).unwrap();
        assert!(
            committed == serde_json::to_value(&definition).unwrap(),
            "crds/generated/{file} is out of date: run `cargo run -p famulus-crds --example \
             definitions`"
        );
        expected.push(file);
    }
    expected.sort();
    assert_eq!(files, expected);
}
