//! A yes or a no that somebody types. Only a typed yes is one: an empty line and the end of the input are a no,
//! and what is neither is asked again.

use crate::error::Error;
use crate::input::Lines;
use crate::output::Output;

/// What a typed line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
    Unclear,
}

/// What is said to an unclear answer.
pub(crate) const AGAIN: &str = "please answer y or n: ";

pub(crate) fn read(line: &str) -> Answer {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        "" | "n" | "no" => Answer::No,
        _ => Answer::Unclear,
    }
}

/// Whether somebody says yes.
pub(crate) async fn ask(
    question: &str,
    input: &mut Lines,
    output: &mut Output,
) -> Result<bool, Error> {
    input.forget();
    output.ask(question);
    loop {
        let Some(line) = input.next().await? else {
            output.end_question();
            return Ok(false);
        };
        match read(&line) {
            Answer::Yes => return Ok(true),
            Answer::No => return Ok(false),
            Answer::Unclear => output.ask(AGAIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Kind;
    use crate::peer::Paper;
    use std::io::Write as _;

    #[test]
    fn only_a_yes_is_a_yes() {
        let check = |line: &str, expected: Answer| assert_eq!(read(line), expected, "{line:?}");
        check("y", Answer::Yes);
        check(" YES ", Answer::Yes);
        check("", Answer::No);
        check("n", Answer::No);
        check("yess", Answer::Unclear);
        check("sure", Answer::Unclear);
        check("у", Answer::Unclear);
    }

    #[tokio::test]
    async fn a_question_is_asked_until_it_is_answered() {
        for (typed, expected) in [("y\n", true), ("\n", false), ("sure\nyes\n", true), ("", false)]
        {
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(typed.as_bytes()).unwrap();
            drop(writer);
            let (out, err) = (Paper::default(), Paper::default());
            let mut output =
                Output::fake(Box::new(out), Kind::Plain, Box::new(err.clone()), Kind::Plain);
            let mut input = Lines::from_fd(reader.into());
            assert_eq!(ask("Go? [y/N] ", &mut input, &mut output).await.unwrap(), expected);
            assert!(err.text().starts_with("Go? [y/N] "), "{}", err.text());
            assert_eq!(err.text().contains(AGAIN), typed.starts_with("sure"));
        }
    }
}
