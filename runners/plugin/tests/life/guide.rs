//! The authoring guide and the samples do what they say.

use std::fs;

use famulus_plugin_life::written::{Written, guide, root};
use serde_json::{Value, json};

use crate::house::{House, inline};
use crate::support::{BEARER, Runner, text_of};
use crate::switching::ready;

async fn serve(name: &str, written: &Written) -> (House, Runner) {
    let house = House::new().await;
    let files: Vec<(&str, &str)> =
        written.files.iter().map(|(path, content)| (&**path, &**content)).collect();
    house.order(name, inline(&files));
    let (revision, _) = house.bundle().await;
    let config = written.config.clone().unwrap_or_else(|| json!({}));
    house.mount(1, Some(&revision), &config, BEARER);
    house.build().await;
    let runner = house.serve_as(name, &[]);
    ready(&runner).await;
    (house, runner)
}

#[tokio::test]
async fn every_plugin_of_the_guide_answers_as_the_guide_says() {
    let plugins = guide();
    let names: Vec<&str> = plugins.keys().map(String::as_str).collect();
    assert_eq!(names, ["greeting", "notes", "shout", "survey", "units", "wordcount"]);
    for (name, written) in &plugins {
        let (_house, runner) = serve(name, written).await;
        assert!(!written.examples.is_empty() || name == "wordcount", "{name} is never called");
        for (number, example) in written.examples.iter().enumerate() {
            let id = format!("c{number}");
            let (tool, parameters) = (&example.tool, example.parameters.clone());
            let body = json!({"tool": tool, "parameters": parameters});
            let path = famulus_protocol::paths::call(&crate::support::call_id(&id));
            let response = runner.send(reqwest::Method::POST, &path, Some(body)).await;
            assert!(response.status().is_success(), "{name} {example:?}");
            let run = runner.ended(&id).await.runs.remove(0);
            assert_eq!(text_of(&run).trim(), example.answer.trim(), "{name} {example:?}");
        }
    }
}

#[tokio::test]
async fn the_guides_tool_for_files_takes_one_and_leaves_one() {
    let plugins = guide();
    let (_house, runner) = serve("wordcount", &plugins["wordcount"]).await;
    let parameters = json!({"document": {"filename": "a.txt", "data": "YiBhIGI="}});
    let run = runner.run("c1", "count", parameters).await;
    assert_eq!(text_of(&run), r#"{"words": 3}"#);
    assert_eq!(run.files[0].name, "words.txt");
    let (_, words) = runner.file("c1", run.files[0].index).await;
    assert_eq!(words, b"a\nb");
}

#[tokio::test]
async fn the_samples_are_plugins_that_build_and_answer() {
    let mut served = 0;
    for entry in fs::read_dir(root().join("config/samples")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let sample: Value = serde_saphyr::from_str(&text).unwrap();
        let Some(files) = sample["spec"]["source"]["inline"]["files"].as_array() else { continue };
        let name = sample["spec"]["name"].as_str().unwrap();
        let file = |file: &Value, key: &str| file[key].as_str().unwrap().to_owned();
        let files = files.iter().map(|one| (file(one, "path"), file(one, "content"))).collect();
        let written = Written { files, ..Written::default() };
        let (_house, runner) = serve(name, &written).await;
        let tools = crate::switching::health(&runner).await.tools;
        for (number, tool) in tools.iter().enumerate() {
            let run = runner.run(&format!("c{number}"), &tool.name, json!({})).await;
            assert!(!text_of(&run).is_empty(), "{}", path.display());
        }
        served += 1;
    }
    assert!(served > 0, "there is no inline sample");
}
