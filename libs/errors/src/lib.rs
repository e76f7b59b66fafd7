//! An error and what caused it.
//!
//! A message of ours leaves out the text of its source. Whoever handles an error says all of it, once,
//! with [`chain`], or looks for the cause that decides what to do with [`causes`].
//!
//! The crate refuses to know any error, and where its words go.

use std::error::Error;
use std::iter;

/// The error itself, then what caused it, and so on.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |&error| error.source())
}

/// The error with its causes on one line. A cause is left out where what is before it has its words
/// already, as foreign errors often do.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    for cause in causes(error).skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Failed>>);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn all_causes_are_said_and_none_twice() {
        let failed = |all: &[&'static str]| {
            let chained = |cause, text| Some(Box::new(Failed(text, cause)));
            *all.iter().rev().copied().fold(None, chained).unwrap()
        };
        for (all, said) in [
            (&["the file cannot be read"][..], "the file cannot be read"),
            (
                &["the page is lost", "the file is gone", "no disk"],
                "the page is lost: the file is gone: no disk",
            ),
            (
                &["refused: the call: timed out", "the call: timed out", "timed out"],
                "refused: the call: timed out",
            ),
        ] {
            let error = failed(all);
            assert_eq!(chain(&error), said);
            assert_eq!(causes(&error).map(ToString::to_string).collect::<Vec<_>>(), all);
        }
    }
}
