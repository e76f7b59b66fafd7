//! The cap on what one call may put before the model.

use famulus_core::tool::ToolOutput;
use std::fmt::Write as _;

/// Characters of one output, the notice about the cut included.
pub const LONGEST_OUTPUT: usize = 16_000;
/// Room for the notice, which is shorter.
const NOTICE: usize = 100;

/// Cuts an output that is too long, and says in it how much is missing.
pub(crate) fn cap(output: ToolOutput) -> ToolOutput {
    let total = output.text().chars().count();
    if total <= LONGEST_OUTPUT {
        return output;
    }
    let kept = LONGEST_OUTPUT - NOTICE;
    let mut text: String = output.text().chars().take(kept).collect();
    let missing = total - kept;
    let _infallible = write!(
        text,
        "\n[cut: {missing} of {total} characters are missing; ask for less at a time]"
    );
    match output {
        // What is left of JSON is not JSON.
        ToolOutput::Text(_) | ToolOutput::Json(_) => ToolOutput::Text(text),
        ToolOutput::Error(_) => ToolOutput::Error(text),
        ToolOutput::Unknown(_) => ToolOutput::Unknown(text),
        ToolOutput::Denied(_) => ToolOutput::Denied(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_is_cut_and_says_so() {
        let fits = ToolOutput::Json("ä".repeat(LONGEST_OUTPUT));
        assert_eq!(cap(fits.clone()), fits);

        let cut = cap(ToolOutput::Json("ä".repeat(20_000)));
        assert!(matches!(cut, ToolOutput::Text(_)), "{cut:?}");
        assert!(cut.text().chars().count() <= LONGEST_OUTPUT);
        assert!(
            cut.text().ends_with(
                "ä\n[cut: 4100 of 20000 characters are missing; ask for less at a time]"
            )
        );

        assert!(matches!(cap(ToolOutput::Error("x".repeat(20_000))), ToolOutput::Error(_)));
    }
}
