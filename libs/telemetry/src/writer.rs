//! Log lines on their way to standard error, behind the redactor.

use std::io::{self, Write};

use crate::redact::Redactor;

/// Masks known secrets in everything written to `inner`.
///
/// The formatter hands over each line in a single write, so a secret is never cut in two between
/// writes.
pub(crate) struct Redacted<W> {
    pub(crate) inner: W,
    pub(crate) redactor: Redactor,
}

impl<W: Write> Write for Redacted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.inner.write_all(&self.redactor.redact_bytes(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_secret_leaves_in_a_message_a_field_or_a_span() {
        for json in [false, true] {
            let (lines, redactor) = (Lines::default(), Redactor::default());
            redactor.add("hunter\"22").unwrap();
            let to = lines.clone();
            let writer = move || Redacted { inner: to.clone(), redactor: redactor.clone() };
            let builder = tracing_subscriber::fmt().with_ansi(false).with_writer(writer);
            let subscriber: Box<dyn tracing::Subscriber + Send + Sync> =
                if json { Box::new(builder.json().finish()) } else { Box::new(builder.finish()) };
            tracing::subscriber::with_default(subscriber, || {
                let secret = "hunter\"22";
                let _span = tracing::info_span!("turn", token = secret).entered();
                tracing::info!(field = ?Some(secret), "the key is {secret}");
            });
            let text = String::from_utf8(lines.0.lock().clone()).unwrap();
            assert!(!text.contains("hunter"), "{text}");
            assert!(text.matches("[redacted]").count() >= 3, "{text}");
        }
    }
}
