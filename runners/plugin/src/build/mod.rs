//! The build: a bundle becomes a tree on the plugin's volume, ready to serve.
//!
//! ```text
//! bundle ─► tree ◄─ the plugin's own files ─► config.json ─► Python packages ─► init ─► record
//! ```
//!
//! Here code of the plugin runs for the first time, held as a call is held, and never over the tree
//! that serves. What fails leaves that one as it is.

mod init;
mod python;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use famulus_protocol::revision::{Built, Bundled, Network, digest};
use famulus_runner_harness::supervisor::Supervisor;

use crate::beneath::Beneath;
use crate::bundle::{BUNDLE_FILE, Failure, REPORT_FILE};
use crate::carry;
use crate::config::Config;
use crate::settings::{BuildSettings, Sandbox};
use crate::volume::{Record, Volume};
use famulus_bundle::archive;
use famulus_bundle::manifest::{self, PluginManifest};
use famulus_bundle::{Tree, executable};
use famulus_runner_harness::probe;
use famulus_runner_harness::scratch::remove;
use famulus_runner_harness::termination::output;

/// Builds the revision of the step before, and reports.
pub async fn build(settings: &BuildSettings) -> Built {
    match make(settings).await {
        Ok((revision, record)) => Built::Done { revision, init_output: record.init_output },
        Err(failure) => Built::Failed(failure.report()),
    }
}

async fn make(settings: &BuildSettings) -> Result<(String, Record), Failure> {
    closed(settings).await?;
    let bundle = bundled(&settings.work)?;
    let given = match fs::read_to_string(settings.mounted.join("config.json")) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::disk("the mounted config.json")(error)),
    };
    let supervisor = Supervisor::new().map_err(|error| Failure::build(error.to_string()))?;
    let context = BuildContext {
        volume: &Volume::new(settings.volume.clone()),
        plugins: &settings.plugins,
        given: given.as_deref(),
        sandbox: &settings.sandbox,
        supervisor: &supervisor,
    };
    let record = context.build(&bundle).await?;
    Ok((bundle.revision, record))
}

/// Code of the plugin runs only where the network was found closed.
async fn closed(settings: &BuildSettings) -> Result<(), Failure> {
    if settings.accept_open_network {
        return Ok(());
    }
    let probed = probe::settle(&settings.targets).await;
    match probed.network {
        Network::Closed => Ok(()),
        Network::Open => Err(Failure::open(probed.detail)),
        Network::Unknown => Err(Failure::unknown(probed.detail)),
    }
}

pub(crate) fn bundled(work: &Path) -> Result<Bundle, Failure> {
    let read =
        fs::read(work.join(REPORT_FILE)).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
    match read.map_err(Failure::disk("the report of the bundling"))? {
        Bundled::Done { revision, commit, .. } => {
            let file = work.join(BUNDLE_FILE);
            let found = archive::digest(&file).map_err(Failure::disk("the bundle"))?;
            if found != revision {
                let what = format!("the bundle is {found} and not {revision}");
                return Err(Failure::build(what));
            }
            Ok(Bundle { file, revision, commit })
        }
        Bundled::Failed(failure) => Err(Failure::build(failure.message)),
    }
}

/// What a tree is made of.
pub(crate) struct Bundle {
    pub(crate) file: PathBuf,
    /// The digest of the file, which whoever found the file has verified.
    pub(crate) revision: String,
    /// Where it is known.
    pub(crate) commit: Option<String>,
}

/// Where a tree is made. The network around it was found closed.
pub(crate) struct BuildContext<'a> {
    pub(crate) volume: &'a Volume,
    /// The folder in which `NAME` leads to the tree while it is made.
    pub(crate) plugins: &'a Path,
    /// The JSON of the configuration, if there is any.
    pub(crate) given: Option<&'a str>,
    /// As for a call; the plugin's folder in it is nobody's yet.
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) supervisor: &'a Supervisor,
}

impl BuildContext<'_> {
    /// Makes the tree of a bundle, or finds that it was made already.
    pub(crate) async fn build(&self, bundle: &Bundle) -> Result<Record, Failure> {
        let hex =
            digest(&bundle.revision).map_err(|problem| Failure::build(problem.to_string()))?;
        let disk = || Failure::disk("the plugin's volume");
        let volume = self.volume;
        volume.prepare().map_err(disk())?;
        let _lock = volume.lock().map_err(disk())?;
        if let Some(record) = volume.record(hex).map_err(disk())? {
            // From now on it is the newest, and so not the one that is removed next.
            volume.note(hex, &record).map_err(disk())?;
            return Ok(record);
        }
        volume.sweep().map_err(disk())?;
        let record = match self.make(bundle, hex).await {
            Ok(record) => record,
            Err(failure) => {
                // The next build sweeps it if it cannot be removed now.
                let _left = volume.forget(hex);
                return Err(failure);
            }
        };
        volume.note(hex, &record).map_err(disk())?;
        Ok(record)
    }

    async fn make(&self, bundle: &Bundle, hex: &str) -> Result<Record, Failure> {
        let disk = || Failure::disk("the plugin's volume");
        let root = self.volume.tree(hex);
        let paths = unpack(bundle, &root)?;
        let new = Beneath::open(&root).map_err(disk())?;
        let tree = Tree::open(&root).map_err(disk())?;
        let plugin = manifest::plugin(&tree).map_err(|c| Failure::manifest(c.to_string()))?;
        self.sandbox.packages.check().map_err(Failure::build)?;
        let tools = tree.tools().map_err(disk())?;

        let names = || paths.iter().map(String::as_str);
        let before = carry::fingerprint(&new, names()).map_err(disk())?;
        let carried = match self.active()? {
            Some((old, record)) => carry::first(&old, &record, &new, &before)
                .map_err(|error| Failure::build(error.to_string()))?,
            None => std::collections::BTreeMap::new(),
        };
        self.configure(&plugin, &new)?;
        let sandbox = self.sandbox_of(&plugin, &root)?;
        python::resolve(&tree, &plugin, &sandbox, self.supervisor).await?;
        let said = init::run(&tree, &plugin, &sandbox, self.supervisor).await?;
        check_entrypoints(&tree, &tools)?;
        Ok(Record {
            digest: bundle.revision.clone(),
            commit: bundle.commit.clone(),
            tools,
            init_output: output(&said),
            bundled: carry::fingerprint(&new, names()).map_err(disk())?,
            carried,
        })
    }

    /// The tree that serves meanwhile.
    fn active(&self) -> Result<Option<(Beneath, Record)>, Failure> {
        let disk = || Failure::disk("the plugin's volume");
        let Some(hex) = self.volume.active() else { return Ok(None) };
        let Some(record) = self.volume.record(&hex).map_err(disk())? else { return Ok(None) };
        let tree = Beneath::open(&self.volume.tree(&hex)).map_err(disk())?;
        Ok(Some((tree, record)))
    }

    /// An init script finds the configuration of the moment. The runner puts the newest in place.
    fn configure(&self, plugin: &PluginManifest, tree: &Beneath) -> Result<(), Failure> {
        let config = Config::of(&plugin.config, self.given).map_err(|error| {
            Failure::build(format!("the mounted config.json is no object: {error}"))
        })?;
        config.write(tree).map_err(Failure::disk("the plugin's volume"))
    }

    /// As for a call, but for this tree.
    fn sandbox_of(&self, plugin: &PluginManifest, root: &Path) -> Result<Sandbox, Failure> {
        let link = self.plugins.join(&plugin.name);
        lead(&link, root).map_err(Failure::disk("the folder of plugins"))?;
        let sandbox =
            Sandbox { plugin: link, state: vec![root.to_owned()], ..self.sandbox.clone() };
        for name in ["uv", "home"] {
            let folder = sandbox.environment.cache.join(name);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(Failure::disk("the plugin's cache"))?;
        }
        Ok(sandbox)
    }
}

/// Unpacks the bundle at the place where it stays, so that whatever notes its own path finds itself
/// there later.
fn unpack(bundle: &Bundle, root: &Path) -> Result<Vec<String>, Failure> {
    let made = remove(root).and_then(|()| DirBuilder::new().mode(0o700).create(root));
    made.map_err(Failure::disk("the plugin's volume"))?;
    archive::unpack(&bundle.file, root).map_err(|error| Failure::build(error.to_string()))
}

/// Lets a path lead to a tree, whatever it led to before.
pub fn lead(link: &Path, to: &Path) -> io::Result<()> {
    let beside: PathBuf = link.with_extension("new");
    remove(&beside)?;
    symlink(to, &beside)?;
    fs::rename(beside, link)
}

/// What init was to make must be there.
fn check_entrypoints(tree: &Tree, tools: &[String]) -> Result<(), Failure> {
    for name in tools {
        let tool = manifest::tool(tree, name).map_err(|c| Failure::manifest(c.to_string()))?;
        let path = format!("{name}/{}", tool.entrypoint);
        let place = tree.inside(&path).map_err(|error| error.to_string());
        place.and_then(|place| executable(&place)).map_err(|what| {
            Failure::manifest(format!(
                "{name}/manifest.json: key `entrypoint` names {path}, which cannot be run after \
                 init: {what}"
            ))
        })?;
    }
    Ok(())
}
