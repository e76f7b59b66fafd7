//! The guide's plugins, with what the guide says that they answer.

use serde_json::{Value, json};

use crate::plugin::{Answer, Call, File, Plugin, Step, Uses, manifest};
use crate::source::SourceKind;
use crate::written::{Example, Written, guide};

/// All of them. What changes with an update is their description.
pub(crate) fn plugins() -> Vec<Plugin> {
    guide().into_iter().map(|(name, written)| plugin(&name, written)).collect()
}

fn plugin(name: &str, written: Written) -> Plugin {
    // Other tests of the same installation have the guide's own names.
    let as_kept = format!("guide-of-{name}");
    let file = |(path, content)| File { path, content };
    let mut first: Vec<File> = written.files.into_iter().map(file).collect();
    describe(&mut first, "name", as_kept.clone().into());
    let mut second = first.clone();
    let again = format!("{} It was updated.", manifest(&first)["description"].as_str().unwrap());
    describe(&mut second, "description", again.into());
    let values = written.config.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    let uses = Uses {
        source: SourceKind::Sent,
        tools: vec!["*".to_owned()],
        values: values.into_iter().collect(),
        before: steps(name, &written.examples, 0),
        meanwhile: Some(steps(name, &written.examples, 1)),
        after: steps(name, &written.examples, 2),
        back: Some(steps(name, &written.examples, 3)),
    };
    Plugin { name: as_kept, first, second, uses, packages: None }
}

/// Gives a key of the plugin's manifest a value.
fn describe(files: &mut [File], key: &str, value: Value) {
    let mut described = manifest(files);
    described[key] = value;
    let file = files.iter_mut().find(|file| file.path == "manifest.json").unwrap();
    file.content = described.to_string();
}

/// The calls of the guide, after they were made so often already.
fn steps(plugin: &str, examples: &[Example], made: usize) -> Vec<Step> {
    if plugin == "wordcount" {
        return vec![Step::One(counted_words())];
    }
    let call = |Example { tool, parameters, answer }: &Example| {
        let answer = answer.trim();
        let answer = match serde_json::from_str(answer) {
            // What is kept is kept on.
            Ok(Value::Number(number)) if plugin == "notes" => {
                let kept = (made * examples.len()) as u64;
                Answer::Json((number.as_u64().unwrap() + kept).into())
            }
            Ok(json) => Answer::Json(json),
            Err(_text) => Answer::Text(answer.to_owned()),
        };
        let (tool, parameters) = (tool.clone(), parameters.clone());
        Step::One(Call { tool, parameters, answer, files: [].into() })
    };
    examples.iter().map(call).collect()
}

/// The guide has words for it, and no call: a file cannot be written into a terminal.
fn counted_words() -> Call {
    Call {
        tool: "count".to_owned(),
        parameters: json!({"document": {"filename": "a.txt", "data": "YiBhIGI="}}),
        answer: Answer::Json(json!({"words": 3})),
        files: [("words.txt".to_owned(), 3)].into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_of_the_guide_is_called_as_the_guide_calls_it() {
        let plugins = plugins();
        let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
        let expected = ["greeting", "notes", "shout", "survey", "units", "wordcount"]
            .map(|name| format!("guide-of-{name}"));
        assert_eq!(names, expected);
        let answers = |at: usize, steps: &[Step]| format!("{:?}", steps[at].calls()[0].answer);
        let notes = &plugins[1].uses;
        assert_eq!(answers(1, &notes.before), "Json(Number(2))");
        assert_eq!(answers(0, notes.back()), "Json(Number(7))");
        assert_eq!(plugins[4].required_key().as_deref(), Some("signature"));
        assert_eq!(plugins[4].secrets(), ["Yours, U."]);
    }
}
