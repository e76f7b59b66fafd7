//! The steps before the runner, each a container of its own that ends with a report, and the one
//! before its end, beside it.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use famulus_protocol::revision::{Built, Bundled, Copied};
use famulus_runner::build::build;
use famulus_runner::bundle::bundle;
use famulus_runner::check::check;
use famulus_runner::copying::{give, take};
use famulus_runner::is_listened_to;
use famulus_runner::settings::{
    BuildSettings, BundleSettings, CopySettings, ProbeSettings, Settings,
};
use famulus_runner_harness::probe::settle;
use famulus_runner_harness::termination::{self, Report};
use famulus_runner_harness::{Mount, harden};
use tokio::time::timeout;

use crate::Failed;

/// A runner that starts may take as long as this until it listens.
const LONGEST_START: Duration = Duration::from_mins(1);

/// What the program is for when it does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Probe,
    Bundle,
    Build,
    Await,
    Check,
    Give,
    Take,
}

const STEPS: [(&str, Step); 7] = [
    ("probe", Step::Probe),
    ("bundle", Step::Bundle),
    ("build", Step::Build),
    ("await", Step::Await),
    ("check", Step::Check),
    ("give", Step::Give),
    ("take", Step::Take),
];

impl Step {
    /// Reads the arguments behind the program's name. `None`: it serves.
    pub(crate) fn of(arguments: &[OsString]) -> Result<Option<Self>, String> {
        match arguments {
            [] => Ok(None),
            [name] if STEPS.iter().any(|(known, _)| name == known) => {
                Ok(STEPS.iter().find(|(known, _)| name == known).map(|(_, step)| *step))
            }
            _ => Err("it takes no argument, or one of probe, bundle, build, await, check, give, take; its \
                      settings are variables FAMULUS_RUNNER_…"
                .to_owned()),
        }
    }

    /// Takes it, and writes its report.
    pub(crate) async fn take(self) -> Result<ExitCode, Failed> {
        match self {
            Self::Probe => {
                let settings = ProbeSettings::read(env::vars_os())?;
                let probed = settle(&settings.targets).await;
                // What was found is for the operator to judge.
                report(&settings.termination, probed, ExitCode::SUCCESS)
            }
            Self::Bundle => {
                let settings = BundleSettings::read(env::vars_os())?;
                harden()?;
                let bundled = bundle(&settings).await;
                let code = match &bundled {
                    Bundled::Done { .. } => ExitCode::SUCCESS,
                    Bundled::Failed(_) => ExitCode::FAILURE,
                };
                report(&settings.termination, bundled, code)
            }
            Self::Build => {
                let settings = BuildSettings::read(env::vars_os())?;
                harden()?;
                let built = build(&settings).await;
                let code = match &built {
                    Built::Done { .. } => ExitCode::SUCCESS,
                    Built::Failed(_) => ExitCode::FAILURE,
                };
                report(&settings.termination, built, code)
            }
            Self::Check => {
                let settings = BuildSettings::read(env::vars_os())?;
                harden()?;
                let hidden = Mount::new(settings.mounted).bearer_file();
                let checked = check(&settings.sandbox, &[hidden]).await;
                // What was found is for the app to judge.
                report(&settings.termination, checked, ExitCode::SUCCESS)
            }
            Self::Give | Self::Take => {
                let settings = CopySettings::read(env::vars_os())?;
                harden()?;
                let gives = self == Self::Give;
                let copied =
                    if gives { give(&settings, io::stdout()).await } else { take(&settings).await };
                let code = match &copied {
                    Copied::Done { .. } => ExitCode::SUCCESS,
                    Copied::Failed(_) => ExitCode::FAILURE,
                };
                report(&settings.termination, copied, code)
            }
            Self::Await => {
                let at = Settings::read(env::vars_os())?.listen;
                // Whoever does not listen by then is told to end all the same.
                let heard = timeout(LONGEST_START, is_listened_to(&at)).await;
                Ok(if heard.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
        }
    }
}

fn report(path: &Path, report: impl Report, code: ExitCode) -> Result<ExitCode, Failed> {
    // The log has it too, for who looks at the container.
    if let Ok(mut line) = serde_json::to_vec(&report) {
        line.push(b'\n');
        let _gone = io::stderr().lock().write_all(&line);
    }
    let path = path.to_owned();
    termination::write(&path, report).map_err(|source| Failed::Report { path, source })?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_told_by_the_only_argument() {
        let step = |arguments: &[&str]| {
            Step::of(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert_eq!(step(&[]), Ok(None));
        assert_eq!(step(&["build"]), Ok(Some(Step::Build)));
        assert!(step(&["--help"]).is_err());
        assert!(step(&["build", "x"]).is_err());
    }
}
