//! What the commands of backups work on: a data directory, and the server on it.

use crate::{
    backup::{held, keeping, machine, target::Target},
    config::{self, Cluster, Database, MachinePlugins},
    paths::Paths,
    plugins::machine_settings,
    private, token, up,
};
use anyhow::Context;
use famulus_backup::{
    Config,
    backups::Backups,
    manifest::Holds,
    seal::Identities,
    take::{Document, Plan, Secret, Source},
};
use famulus_cluster::keeper::{Keeper, Patience};
use famulus_lifecycle::Tasks;
use famulus_local::postgres::{PrivatePostgres, Running};
use famulus_machine::{Copies, Settings};
use famulus_store::Installation;
use famulus_telemetry::Guard;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// After its server was stopped, a command has this long.
const DRAIN: Duration = Duration::from_secs(5);

/// The installation of this machine.
#[derive(Clone, Debug)]
pub struct Home {
    pub config: Config,
    pub data_dir: PathBuf,
    pub config_file: Option<PathBuf>,
    pub plugins: Where,
    pub(super) backups: Backups,
}

/// Where an installation has its plugins, and so what of them is in no database.
#[derive(Clone, Debug)]
pub enum Where {
    Nowhere,
    Machine(Settings),
    Cluster(Cluster),
}

impl Where {
    /// # Errors
    /// What makes sandboxes is not named, and not found.
    pub fn of(
        cluster: Option<&Cluster>,
        database: &Database,
        plugins: &MachinePlugins,
        data_dir: &Path,
    ) -> anyhow::Result<Self> {
        match (cluster, &database.url) {
            (Some(cluster), _) => Ok(Self::Cluster(cluster.clone())),
            (None, Some(_shared)) => Ok(Self::Nowhere),
            (None, None) => Ok(Self::Machine(machine_settings(plugins, data_dir)?)),
        }
    }

    pub(super) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            Self::Nowhere | Self::Machine(_) => None,
        }
    }
}

impl Home {
    /// # Errors
    /// What the configuration says of the place for backups cannot be so.
    pub fn new(
        config: Config,
        data_dir: PathBuf,
        config_file: Option<PathBuf>,
        plugins: Where,
    ) -> anyhow::Result<Self> {
        held::checked(&config.channels)?;
        let backups = match (&config.folder, &config.s3) {
            (Some(_), Some(_)) => anyhow::bail!(
                "`backup.folder` and `backup.s3` name two places for backups; leave one of them out"
            ),
            (None, Some(s3)) => Backups::in_bucket(s3)?,
            (Some(folder), None) => Backups::in_folder(folder),
            (None, None) => Backups::in_folder(data_dir.join("backups")),
        };
        Ok(Self { config, data_dir, config_file, plugins, backups })
    }

    pub(super) fn plan(&self) -> Plan {
        Plan {
            backups: self.backups.clone(),
            recipient: self.config.recipient.clone(),
            rules: self.config.rules(),
        }
    }

    /// The private keys, where the configuration names them.
    pub(super) fn identities(&self) -> anyhow::Result<Option<Arc<Identities>>> {
        let file = self.config.identity_file.as_deref();
        Ok(file.map(Identities::read).transpose()?.map(Arc::new))
    }

    /// What a backup is made of, once there is something. Plugins' runners are asked with this patience.
    pub(super) async fn source(
        &self,
        target: &Target,
        patience: Patience,
    ) -> anyhow::Result<Source> {
        let known = installation(target).await?;
        let mut secrets = vec![Secret {
            path: token::path(&self.data_dir),
            name: "token",
            holds: Holds::Token,
            words: "the owner's first token",
        }];
        secrets.extend(self.config_file.clone().map(|path| Secret {
            path,
            name: "config.toml",
            holds: Holds::Configuration,
            words: "the configuration file (not what it refers to)",
        }));
        let mut feeds = held::feeds(self, patience.runner)?;
        let (mut documents, mut leaves_out) = (Vec::new(), Vec::new());
        if let Where::Machine(settings) = &self.plugins {
            let there = famulus_store::plugins_there(&target.connect()).await?;
            let copies = Copies::new(settings.clone(), &Tasks::new());
            let (given, not_given) = machine::feeds(&copies, &there, patience)?;
            feeds.extend(given);
            leaves_out.extend(not_given);
        }
        if let Where::Cluster(cluster) = &self.plugins {
            secrets.push(Secret {
                path: cluster.root_key_file.clone(),
                name: "root-key",
                holds: Holds::RootKey,
                words: "the root key",
            });
            let namespace = &cluster.sandbox_namespace;
            let (bytes, keeps) = famulus_cluster::kept::plugins(namespace).await?;
            documents.push(Document {
                bytes,
                name: "plugins.json",
                holds: Holds::Plugins,
                words: format!("the Plugins, as they were applied: {}", keeps.len()),
            });
            if let Some(key) = &cluster.keeper_key_file {
                let keeper = Keeper::connect(namespace, key, patience).await?;
                let (asked, not_asked) = keeping::feeds(&keeper, &keeps);
                feeds.extend(asked);
                leaves_out.extend(not_asked);
            } else {
                leaves_out.push(
                    "what plugins keep on volumes of their own, and the Secrets that they are configured \
                     by: `cluster.keeper_key_file` names no key for that"
                        .to_owned(),
                );
            }
        }
        Ok(Source {
            server: target.server()?,
            installation: known.owner.0,
            famulus: env!("CARGO_PKG_VERSION").to_owned(),
            schema: known.schema,
            postgres: target.version.clone(),
            secrets,
            documents,
            feeds,
            leaves_out,
        })
    }
}

/// Whose database it is.
///
/// # Errors
/// It cannot be read, or is nobody's yet.
pub(super) async fn installation(target: &Target) -> anyhow::Result<Installation> {
    famulus_store::installation(&target.connect()).await?.context(
        "the database is empty: there is nothing to back up before Famulus has started once",
    )
}

/// A home, and what is needed to start its server, or one of the same kind.
pub struct Opened {
    pub home: Home,
    pub database: Database,
}

impl Opened {
    pub(super) fn load(file: Option<PathBuf>, places: Paths) -> anyhow::Result<(Self, Guard)> {
        let config_file = up::config_file(file, &places);
        let loaded = config::load(config_file.as_deref())?;
        let telemetry = famulus_telemetry::init(&loaded.telemetry)?;
        let redactor = telemetry.redactor();
        let (database, backup) = (loaded.database(&redactor)?, loaded.backup(&redactor)?);
        let data_dir = loaded.data_dir.unwrap_or(places.data_dir);
        let data_dir = std::path::absolute(&data_dir).context("the data directory has no path")?;
        let plugins = Where::of(loaded.cluster.as_ref(), &database, &loaded.plugins, &data_dir)?;
        let home = Home::new(backup, data_dir, config_file, plugins)?;
        Ok((Self { home, database }, telemetry))
    }
}

/// The server that a command works with.
pub(super) enum At {
    /// Another process keeps it.
    Running(Running),
    /// Started for this command.
    Ours(Ours),
    /// The configuration names a server.
    Elsewhere(Target),
}

/// A server that this command has to itself.
pub(super) struct Ours {
    pub(super) postgres: PrivatePostgres,
    place: Running,
    tasks: Tasks,
}

impl Ours {
    pub(super) async fn start(database: &Database, data_dir: &Path) -> anyhow::Result<Self> {
        let tasks = Tasks::new();
        let postgres = private::start(database, data_dir, &tasks).await?;
        Ok(Self { place: postgres.place(), postgres, tasks })
    }

    pub(super) fn target(&self, database: &str) -> Target {
        Target::of(&self.place, database)
    }

    pub(super) async fn stop(self) {
        // Whoever watches the server knows by it that its end is meant.
        self.tasks.shutdown();
        self.postgres.stop().await;
        let _nothing_to_wait_for = self.tasks.drain(DRAIN).await;
    }
}

impl At {
    pub(super) async fn open(opened: &Opened) -> anyhow::Result<Self> {
        if let Some(url) = &opened.database.url {
            return Ok(Self::Elsewhere(Target::elsewhere(url, &opened.database, true).await?));
        }
        let data_dir = &opened.home.data_dir;
        if let Some(running) = Running::find(data_dir)? {
            return Ok(Self::Running(running));
        }
        anyhow::ensure!(
            data_dir.join("postgres").is_dir(),
            "there is no database in {}: there is nothing to back up before `famulus up` has started \
             once; or name another folder with `data_dir`",
            data_dir.display()
        );
        Ok(Self::Ours(Ours::start(&opened.database, data_dir).await?))
    }

    /// The database of the application.
    pub(super) fn target(&self) -> Target {
        match self {
            Self::Running(running) => Target::of(running, Running::DATABASE),
            Self::Ours(ours) => ours.target(Running::DATABASE),
            Self::Elsewhere(target) => target.clone(),
        }
    }

    pub(super) async fn close(self) {
        match self {
            Self::Running(_) | Self::Elsewhere(_) => {}
            Self::Ours(ours) => ours.stop().await,
        }
    }
}
