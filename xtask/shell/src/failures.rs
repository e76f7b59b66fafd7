//! What is told last of tests that failed: whoever sees only the end of a long log sees the cause.

/// Lines of each test that failed. Its cause stands at the end of what it said.
const LINES: usize = 30;

/// Characters of a line.
const WIDTH: usize = 400;

/// What a program with tests said of those that failed: for each its name and its last lines, without
/// the frames of a backtrace. Of one that ended before it could say so, its last lines.
pub fn told(said: &str) -> String {
    const REPORTS: &str = "\nfailures:\n";
    const NAMES: &str = "\n\nfailures:\n";
    let Some((_, reports)) = said.split_once(REPORTS) else { return last(said) };
    let reports = reports.split_once(NAMES).map_or(reports, |(reports, _)| reports);
    let mut told = Vec::new();
    for report in format!("\n{reports}").split("\n---- ").skip(1) {
        let (name, body) = report.split_once('\n').unwrap_or((report, ""));
        told.push(format!("---- {name}\n{}", last(body)));
    }
    if told.is_empty() { last(reports) } else { told.join("\n") }
}

fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !is_of_backtrace(line)).collect();
    let shown = lines.iter().skip(lines.len().saturating_sub(LINES));
    shown.map(|line| shortened(line)).collect::<Vec<_>>().join("\n")
}

/// A frame is a number, a colon and a function; below it may stand `at FILE`.
fn is_of_backtrace(line: &str) -> bool {
    let line = line.trim();
    let frame = line.split_once(": ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    line.is_empty()
        || frame
        || line == "stack backtrace:"
        || line.starts_with("at /")
        || line.starts_with("note: ")
}

fn shortened(line: &str) -> &str {
    line.char_indices().nth(WIDTH).map_or(line, |(end, _)| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "running 3 tests
test one ... ok
test two ... FAILED
test three ... FAILED

failures:

---- two stdout ----
its log
thread 'two' (12) panicked at src/lib.rs:3:5:
it is shut
stack backtrace:
   0: __rustc::rust_begin_unwind
   1: core::panicking::panic_fmt
             at /rustc/library/core.rs:3:5
note: Some details are omitted

---- three stdout ----
it is open


failures:
    two
    three

test result: FAILED. 1 passed; 2 failed
";

    #[test]
    fn each_failure_is_told_with_its_cause_and_without_frames() {
        let expected = "---- two stdout ----\nits log\nthread 'two' (12) panicked at \
                        src/lib.rs:3:5:\nit is shut\n---- three stdout ----\nit is open";
        assert_eq!(told(SAID), expected);
    }

    #[test]
    fn of_much_the_end_is_told() {
        let lines: Vec<String> = (0..100).map(|line| format!("line {line}")).collect();
        let log = lines.join("\n") + "\n";
        let told = told(&SAID.replace("its log\n", &log));
        assert!(told.contains("\nline 99\nthread 'two'"), "{told}");
        assert!(!told.contains("line 71\n"), "{told}");
        let (lines, wide) = (super::told(&log), super::told(&"x".repeat(WIDTH * 2)));
        assert_eq!((lines.lines().next(), wide.len()), (Some("line 70"), WIDTH));
    }
}
