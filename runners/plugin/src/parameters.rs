//! The parameters of a call, checked against the tool's manifest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use famulus_protocol::{FILES_BYTES, Kind, Problem};
use serde_json::{Map, Value};

use famulus_bundle::manifest::{self, Parameter, ParameterType, ToolManifest};
use famulus_runner_harness::file_name::is_safe;

/// Runs of one call.
const MOST_RUNS: usize = 64;

/// What one run gets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    /// As they were sent; the values of files are replaced by paths when those are known.
    pub(crate) values: Map<String, Value>,
    pub(crate) files: Vec<InputFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputFile {
    pub(crate) parameter: String,
    /// One component of a path, unique within the run.
    pub(crate) name: String,
    pub(crate) source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Inline(Vec<u8>),
    /// The number of an upload.
    Upload(u32),
}

/// Checked parameters: whether they were an array, and what each run gets.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) each: bool,
    pub(crate) runs: Vec<Input>,
}

/// Checks the parameters of a call; `uploads` are the sizes of the files that came for it.
pub(crate) fn check(
    tool: &ToolManifest,
    parameters: &Value,
    uploads: &[u64],
) -> Result<Inputs, Problem> {
    let mut budget = Budget { left: FILES_BYTES };
    let one = |value: &Value, place: &str, budget: &mut Budget| match value.as_object() {
        Some(object) => input(tool, object, place, uploads, budget),
        None => Err(wrong(
            tool,
            format!("the parameters{place} are {}, not an object", manifest::kind(value)),
        )),
    };
    match parameters {
        Value::Array(items) if items.len() > MOST_RUNS => Err(wrong(
            tool,
            format!("the array has {} items; a call may have {MOST_RUNS}", items.len()),
        )),
        Value::Array(items) => {
            let runs = items.iter().enumerate();
            let runs = runs.map(|(at, item)| one(item, &format!(" of item {at}"), &mut budget));
            Ok(Inputs { each: true, runs: runs.collect::<Result<_, _>>()? })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Ok(Inputs { each: false, runs: vec![one(parameters, "", &mut budget)?] })
        }
    }
}

/// Bytes that the files of the call may still have.
struct Budget {
    left: u64,
}

impl Budget {
    fn take(&mut self, bytes: u64) -> Result<(), Problem> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            Problem::new(
                Kind::TooLarge,
                format!("the files of the call have more than {FILES_BYTES} bytes in all"),
                "send smaller ones, or fewer",
            )
        })?;
        Ok(())
    }
}

fn input(
    tool: &ToolManifest,
    object: &Map<String, Value>,
    place: &str,
    uploads: &[u64],
    budget: &mut Budget,
) -> Result<Input, Problem> {
    let mut files: Vec<InputFile> = Vec::new();
    for (name, value) in object {
        let Some(parameter) = tool.parameters.iter().find(|known| known.name == *name) else {
            let name = name.escape_debug();
            return Err(wrong(tool, format!("there is no parameter `{name}`{place}")));
        };
        match file(tool, name, value, uploads, budget)? {
            Some(file) if files.iter().any(|known| known.name == file.name) => {
                let twice = file.name.escape_debug();
                return Err(wrong(tool, format!("two files are named `{twice}`{place}")));
            }
            Some(file) => files.push(file),
            None => check_type(tool, parameter, value, place)?,
        }
    }
    Ok(Input { values: object.clone(), files })
}

/// A value that is exactly a name with data, or a name with an upload, is a file.
fn file(
    tool: &ToolManifest,
    parameter: &str,
    value: &Value,
    uploads: &[u64],
    budget: &mut Budget,
) -> Result<Option<InputFile>, Problem> {
    let Some(object) = value.as_object().filter(|object| object.len() == 2) else {
        return Ok(None);
    };
    let Some(Value::String(name)) = object.get("filename") else { return Ok(None) };
    let bad = |what: String| wrong(tool, format!("the file of `{parameter}` {what}"));
    let (source, bytes) = match (object.get("data"), object.get("upload")) {
        (Some(Value::String(data)), None) => {
            let bytes =
                STANDARD.decode(data).map_err(|error| bad(format!("is no base64: {error}")))?;
            let length = bytes.len() as u64;
            (Source::Inline(bytes), length)
        }
        (None, Some(Value::Number(number))) => {
            let index = number.as_u64().and_then(|number| u32::try_from(number).ok());
            let found = index.and_then(|index| Some((index, *uploads.get(index as usize)?)));
            let (index, length) =
                found.ok_or_else(|| bad(format!("is upload {number}, which did not come")))?;
            (Source::Upload(index), length)
        }
        _ => return Ok(None),
    };
    if !is_safe(name) {
        return Err(bad(format!(
            "is named `{}`; use a plain name without `/`, control characters and \
             characters that change the direction of writing",
            name.escape_debug()
        )));
    }
    budget.take(bytes)?;
    Ok(Some(InputFile { parameter: parameter.to_owned(), name: name.clone(), source }))
}

fn check_type(
    tool: &ToolManifest,
    parameter: &Parameter,
    value: &Value,
    place: &str,
) -> Result<(), Problem> {
    let fits = match parameter.kind {
        // A file that is none of the call's is a path or an address, in the plugin's own sense.
        ParameterType::String | ParameterType::File => value.is_string(),
        ParameterType::Boolean => value.is_boolean(),
        ParameterType::Number => value.is_number(),
        ParameterType::Integer => is_whole(value),
        ParameterType::Array => value.is_array(),
        ParameterType::Object => value.is_object(),
    };
    if fits {
        return Ok(());
    }
    let (name, word) = (&parameter.name, parameter.kind.word());
    let is = manifest::kind(value);
    Err(wrong(tool, format!("`{name}`{place} is {is} and must be of type {word}")))
}

/// `3` and `3.0`, not `3.5`.
fn is_whole(value: &Value) -> bool {
    value.is_i64()
        || value.is_u64()
        || value.as_f64().is_some_and(|number| number.is_finite() && number.fract() == 0.0)
}

fn wrong(tool: &ToolManifest, what: String) -> Problem {
    Problem::new(Kind::Parameters, what, tool.schema())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool() -> ToolManifest {
        let parameter = |name: &str, kind| Parameter {
            name: name.to_owned(),
            kind,
            description: "d".to_owned(),
        };
        ToolManifest {
            name: "t".to_owned(),
            description: "d".to_owned(),
            entrypoint: "run".to_owned(),
            is_async: false,
            is_concurrent: false,
            parameters: vec![
                parameter("s", ParameterType::String),
                parameter("i", ParameterType::Integer),
                parameter("n", ParameterType::Number),
                parameter("b", ParameterType::Boolean),
                parameter("f", ParameterType::File),
            ],
        }
    }

    #[test]
    fn parameters_fit_or_are_refused_with_the_schema() {
        let check = |parameters: Value, expected: &str| {
            let said = match check(&tool(), &parameters, &[7]) {
                Ok(_) => String::new(),
                Err(problem) => {
                    assert!(problem.remedy.contains("- `i` (integer): d"), "{parameters}");
                    assert_eq!(problem.kind, Kind::Parameters);
                    problem.detail
                }
            };
            assert_eq!(said, expected, "{parameters}");
        };
        check(json!({}), "");
        check(json!({"s": "", "i": 3, "n": 1.5, "b": true}), "");
        check(json!({"i": 3.0}), "");
        check(json!([{"i": 1}, {"i": 2}]), "");
        check(json!([]), "");
        check(json!({"x": 1}), "there is no parameter `x`");
        check(json!([{"i": 1}, {"x": 2}]), "there is no parameter `x` of item 1");
        check(json!({"i": 3.5}), "`i` is a number and must be of type integer");
        check(json!({"i": "3"}), "`i` is a string and must be of type integer");
        check(json!({"s": null}), "`s` is null and must be of type string");
        check(json!({"b": 1}), "`b` is a number and must be of type boolean");
        check(json!("text"), "the parameters are a string, not an object");
        check(json!([1]), "the parameters of item 0 are a number, not an object");
        check(json!({"f": {"filename": "a.txt", "data": "aGk="}}), "");
        check(json!({"s": {"filename": "a.txt", "upload": 0}}), "");
        check(
            json!({"f": {"filename": "a.txt", "upload": 1}}),
            "the file of `f` is upload 1, which did not come",
        );
        check(
            json!({"f": {"filename": "a", "data": "a"}, "s": {"filename": "a", "data": ""}}),
            "the file of `f` is no base64: Invalid input length: 1",
        );
        check(
            json!({"f": {"filename": "a", "data": ""}, "s": {"filename": "a", "data": ""}}),
            "two files are named `a`",
        );
        check(
            json!({"f": {"filename": "a", "data": "", "more": 1}}),
            "`f` is an object and must be of type file",
        );
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        for name in ["../x", "/etc/passwd", "a/b", "..", ".", "", "a\nb", "a\0b"] {
            let parameters = json!({"f": {"filename": name, "data": ""}});
            let problem = check(&tool(), &parameters, &[]).unwrap_err();
            assert!(problem.detail.contains("use a plain name"), "{name:?}: {problem}");
        }
    }

    #[test]
    fn files_have_a_budget_over_all_runs() {
        let half = FILES_BYTES / 2 + 1;
        let item = json!({"f": {"filename": "a", "upload": 0}});
        assert!(check(&tool(), &json!([item]), &[half]).is_ok());
        let problem = check(&tool(), &json!([item, item]), &[half]).unwrap_err();
        assert_eq!(problem.kind, Kind::TooLarge);
    }
}
