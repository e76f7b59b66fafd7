//! Each sample is accepted, is read whole, and is written as it was.

use std::fs;
use std::path::Path;

use famulus_crds::plugin::Plugin;
use serde_json::Value;

use crate::judge::{refusals, without_nulls};

/// Each sample of a Plugin, with the name of its file.
fn samples() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/samples");
    let mut found: Vec<(String, Value)> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, serde_saphyr::from_str(&text).unwrap())
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// What `written` says otherwise than `sample`, or not at all. It may say more: defaults.
fn lost(path: &str, sample: &Value, written: &Value, found: &mut Vec<String>) {
    match (sample, written) {
        (Value::Object(fields), Value::Object(_)) => {
            for (name, field) in fields {
                lost(&format!("{path}.{name}"), field, &written[name], found);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (index, item) in items.iter().enumerate() {
                lost(&format!("{path}[{index}]"), item, &others[index], found);
            }
        }
        // An amount may stand without quotes.
        (Value::Number(number), Value::String(text)) if *text == number.to_string() => {}
        (sample, written) if sample == written => {}
        (sample, written) => found.push(format!("{path}: {sample} became {written}")),
    }
}

fn lost_by_the_types(sample: &Value) -> Vec<String> {
    let plugin: Plugin = serde_json::from_value(sample.clone()).unwrap();
    let written = serde_json::to_value(&plugin).unwrap();
    assert_eq!(serde_json::from_value::<Plugin>(written.clone()).unwrap(), plugin);
    let mut found = Vec::new();
    lost("", &without_nulls(sample.clone()), &written, &mut found);
    found
}

#[test]
fn samples_are_accepted_and_read_whole() {
    let samples = samples();
    let names: Vec<&str> = samples.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["plugin-git.yaml", "plugin-inline.yaml"]);
    for (name, sample) in &samples {
        assert_eq!(refusals(sample, None), Vec::<String>::new(), "{name}");
        assert_eq!(lost_by_the_types(sample), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_field_that_no_type_has_is_found() {
    let mut sample = samples().remove(0).1;
    sample["spec"]["egress"]["host"] = "example.org".into();
    assert_eq!(lost_by_the_types(&sample), [".spec.egress.host: \"example.org\" became null"]);
}

#[test]
fn the_inline_sample_is_a_plugin() {
    let (_, sample) = samples().remove(1);
    let plugin: Plugin = serde_json::from_value(sample).unwrap();
    let files = plugin.spec.source.inline.unwrap().files;
    let content = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        file.unwrap_or_else(|| panic!("no {path}")).content.clone()
    };
    let manifest: Value = serde_json::from_str(&content("manifest.json")).unwrap();
    assert_eq!(manifest["name"], plugin.spec.name.as_str());
    for tool in &plugin.spec.permissions.tools {
        let manifest: Value =
            serde_json::from_str(&content(&format!("{tool}/manifest.json"))).unwrap();
        assert_eq!(manifest["name"], tool.as_str());
        let entrypoint = manifest["entrypoint"].as_str().unwrap();
        assert!(content(&format!("{tool}/{entrypoint}")).starts_with("#!"));
    }
}
