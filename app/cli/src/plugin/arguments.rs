//! `KEY=VALUE` on the command line becomes parameters, by the types that the tool declares.

use std::path::PathBuf;

use famulus_core::plugin::ToolDescription;
use serde_json::{Map, Value};

use crate::error::Error;

/// A parameter as it was written.
#[derive(Debug, PartialEq)]
pub(crate) enum Given {
    Value(Value),
    /// A file of this machine.
    File(PathBuf),
}

/// Reads parameters. Of a tool that nothing is known of, values are JSON where they read as such.
pub(crate) fn read(
    words: &[String],
    tool: Option<&ToolDescription>,
) -> Result<Vec<(String, Given)>, Error> {
    words.iter().map(|word| one(word, tool)).collect()
}

fn one(word: &str, tool: Option<&ToolDescription>) -> Result<(String, Given), Error> {
    let wrong = |why: String| Error::Parameter { given: word.to_owned(), why };
    let Some((name, value)) = word.split_once('=') else {
        return Err(wrong("has no `=`; write NAME=VALUE".to_owned()));
    };
    let declared = tool.map(|tool| {
        tool.parameters.get(name).ok_or_else(|| {
            let known: Vec<&str> = tool.parameters.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            wrong(format!("names no parameter; the parameters are: {known}"))
        })
    });
    let declared = declared.transpose()?;
    let kind = declared.and_then(|is| is.get("type")).and_then(Value::as_str).unwrap_or_default();
    let text = || Value::String(value.to_owned());
    let given = match kind {
        "string" => Given::Value(text()),
        "file" => Given::File(value.into()),
        "" => Given::Value(serde_json::from_str(value).unwrap_or_else(|_| text())),
        kind => Given::Value(
            serde_json::from_str(value)
                .map_err(|_| wrong(format!("is no {kind}; write it as JSON")))?,
        ),
    };
    Ok((name.to_owned(), given))
}

/// The parameters without files, and the files with their names.
pub(crate) fn apart(given: Vec<(String, Given)>) -> (Map<String, Value>, Vec<(String, PathBuf)>) {
    let (mut values, mut files) = (Map::new(), Vec::new());
    for (name, given) in given {
        match given {
            Given::Value(value) => {
                values.insert(name, value);
            }
            Given::File(path) => files.push((name, path)),
        }
    }
    (values, files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_read_by_its_parameters_type() {
        let tool: ToolDescription = serde_json::from_value(json!({
            "name": "t", "description": "d", "parameters": {
                "text": {"type": "string"}, "count": {"type": "integer"}, "photo": {"type": "file"},
                "list": {"type": "array"}}}))
        .unwrap();
        let check = |word: &str, tool: Option<&ToolDescription>, expected: Result<Given, &str>| {
            let read = one(word, tool).map(|(_, given)| given);
            match (read, expected) {
                (Ok(given), Ok(expected)) => assert_eq!(given, expected, "{word}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (read, _) => panic!("{word}: {read:?}"),
            }
        };
        check("text=7", Some(&tool), Ok(Given::Value(json!("7"))));
        check("text=a=b", Some(&tool), Ok(Given::Value(json!("a=b"))));
        check("count=7", Some(&tool), Ok(Given::Value(json!(7))));
        check("count=x", Some(&tool), Err("is no integer"));
        check("list=[1]", Some(&tool), Ok(Given::Value(json!([1]))));
        check("photo=a.png", Some(&tool), Ok(Given::File("a.png".into())));
        check("nosuch=1", Some(&tool), Err("the parameters are: text, count, photo, list"));
        check("text", Some(&tool), Err("has no `=`"));
        check("any=7", None, Ok(Given::Value(json!(7))));
        check("any=seven", None, Ok(Given::Value(json!("seven"))));
    }
}
