//! The bundling: from where the owner keeps a plugin to a revision that the app keeps.
//!
//! ```text
//! build.json ─► source (inline, git, kept) ─► WORK/tree ─► manifests ─► WORK/bundle.tar ─► app
//!                                                              └──────► WORK/bundled.json, report
//! ```
//!
//! Nothing of the plugin is executed here. The process holds the runner's bearer, and ends before
//! the container begins that runs the plugin's init script.

mod source;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use famulus_bundle::{DescribeError, archive, describe};
use famulus_protocol::paths;
use famulus_protocol::revision::{
    BUNDLE_KEPT, BuildFailure, BuildOrder, BuildSource, Bundled, Description, digest,
};
use famulus_runner_harness::{App, AppError, Credentials};

use crate::settings::BundleSettings;
use famulus_runner_harness::scratch::remove;
use famulus_runner_harness::termination::failure;

pub(crate) use source::kept;

/// The files of a step, by which it hands over to the next.
pub(crate) const BUNDLE_FILE: &str = "bundle.tar";
pub(crate) const REPORT_FILE: &str = "bundled.json";

/// Why there is no bundle, in the words of a Plugin's conditions.
#[derive(Debug)]
pub(crate) struct Failure {
    reason: &'static str,
    message: String,
}

impl Failure {
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { reason: "SourceUnreachable", message: message.into() }
    }

    pub(crate) fn no_ref(message: impl Into<String>) -> Self {
        Self { reason: "RefNotFound", message: message.into() }
    }

    pub(crate) fn manifest(message: impl Into<String>) -> Self {
        Self { reason: "ManifestInvalid", message: message.into() }
    }

    pub(crate) fn init(message: impl Into<String>) -> Self {
        Self { reason: "InitFailed", message: message.into() }
    }

    pub(crate) fn no_revision(message: impl Into<String>) -> Self {
        Self { reason: "RevisionUnknown", message: message.into() }
    }

    pub(crate) fn open(message: impl Into<String>) -> Self {
        Self { reason: "NetworkOpen", message: message.into() }
    }

    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self { reason: "NetworkUnknown", message: message.into() }
    }

    pub(crate) fn build(message: impl Into<String>) -> Self {
        Self { reason: "BuildFailed", message: message.into() }
    }

    pub(crate) fn disk(what: &str) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| {
            Self::build(format!(
                "{what} cannot be read or written ({error}); see whether its disk is full"
            ))
        }
    }

    pub(crate) fn report(self) -> BuildFailure {
        failure(self.reason, &self.message)
    }
}

impl From<DescribeError> for Failure {
    fn from(error: DescribeError) -> Self {
        match error {
            DescribeError::Manifest(complaints) => Self::manifest(complaints),
            DescribeError::Disk(error) => Self::disk("the plugin's tree")(error),
        }
    }
}

/// Makes the bundle, hands it to the app, and reports.
pub async fn bundle(settings: &BundleSettings) -> Bundled {
    match make(settings).await {
        Ok(bundled) => bundled,
        Err(failure) => Bundled::Failed(failure.report()),
    }
}

async fn make(settings: &BundleSettings) -> Result<Bundled, Failure> {
    let order = order(&settings.order)?;
    let app = app(&settings.order, &order)?;
    let tree = settings.work.join("tree");
    let bundle = settings.work.join(BUNDLE_FILE);
    remove(&tree).and_then(|()| fs::create_dir(&tree)).map_err(Failure::disk("the work folder"))?;

    let commit = source::obtain(&order, settings, &app, &tree).await?;
    let description = describe(&tree, &order.plugin, commit)?;
    let made = archive::pack(&tree, &bundle).map_err(|error| Failure::build(error.to_string()))?;
    let revision = match &order.source {
        BuildSource::Revision(kept) if *kept != made => {
            // Nothing of ours writes such a bundle.
            let what = format!("the kept bundle {kept} is not written as a bundle is");
            return Err(Failure::no_revision(format!("{what}; remove spec.revision")));
        }
        BuildSource::Revision(kept) => kept.clone(),
        BuildSource::Inline { .. } | BuildSource::Git { .. } => {
            hand_over(&app, &made, &description, &bundle).await?;
            made
        }
    };
    let bundled = bundled(revision, &description);
    let report = serde_json::to_vec(&bundled).map_err(io::Error::from);
    let written = report.and_then(|report| fs::write(settings.work.join(REPORT_FILE), report));
    written.map_err(Failure::disk("the work folder"))?;
    Ok(bundled)
}

fn order(folder: &Path) -> Result<BuildOrder, Failure> {
    let file = folder.join("build.json");
    let read = fs::read(&file).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
    read.map_err(|error| {
        let file = file.display();
        Failure::build(format!("the order {file} cannot be read ({error}); see the operator's log"))
    })
}

fn app(folder: &Path, order: &BuildOrder) -> Result<App, Failure> {
    let file: PathBuf = folder.join("bearer");
    let bearer = fs::read_to_string(&file).map_err(Failure::disk("the bearer"))?;
    let identity = Some((order.uid.clone(), order.rendered));
    let credentials = Credentials { bearer: bearer.trim().to_owned(), identity };
    App::new(&order.callback, credentials).ok_or_else(|| {
        let what = format!("`{}` is no plain http URL of the app", order.callback.escape_debug());
        Failure::build(format!("{what}; see the operator's settings"))
    })
}

async fn hand_over(
    app: &App,
    revision: &str,
    description: &Description,
    bundle: &Path,
) -> Result<(), Failure> {
    let wrong = |problem: famulus_protocol::Problem| Failure::build(problem.to_string());
    let hex = digest(revision).map_err(wrong)?;
    let refused =
        |error: AppError| Failure::build(format!("the app does not take the bundle: {error}"));
    let described = app.put_json(&paths::description(hex), description).await;
    if described.map_err(refused)? == BUNDLE_KEPT {
        return Ok(());
    }
    app.put_file(&paths::bundle(hex), bundle).await.map_err(refused)
}

fn bundled(revision: String, description: &Description) -> Bundled {
    // A key with a default has a value whatever the owner does.
    let required = description.config.iter().filter(|key| key.required && key.default.is_none());
    Bundled::Done {
        revision,
        commit: description.commit.clone(),
        tools: description.tools.iter().map(|tool| tool.name.clone()).collect(),
        required_keys: required.map(|key| key.key.clone()).collect(),
        config_keys: description.config.iter().map(|key| key.key.clone()).collect(),
    }
}
