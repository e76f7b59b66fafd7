//! Postgres servers for tests and development: the product's own private Postgres, on data that
//! may be thrown away.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use famulus_lifecycle::Tasks;
use famulus_local::postgres::{PostgresError, PrivatePostgres, Settings};
use xtask_shell::workspace::{cache, root};
use xtask_shell::{Shell, digest, space};

use crate::tree;

/// More runs than this at the same time on one machine mean that something else is wrong.
const SLOTS: u32 = 16;

/// Enough for test binaries that open a pool per test.
const CONNECTIONS: u32 = 200;

/// What the data of a whole run take at most: the log of changes alone may have one.
const MEMORY_GIB: f64 = 4.0;

/// A server whose data go away with it.
pub struct Scratch {
    pub postgres: PrivatePostgres,
    data_dir: PathBuf,
}

impl Scratch {
    /// Starts a server on empty data on the disk, in the first place that no other run is using. What a
    /// killed run left in a place is stopped and removed.
    pub async fn start(shell: &mut Shell) -> Result<Self> {
        Self::start_in(shell, &cache().join("scratch")).await
    }

    /// The same for tests, which make and drop a database each: in memory, where the machine has room for it.
    /// A server that is killed does not notice where its data lie.
    pub async fn for_tests(shell: &mut Shell) -> Result<Self> {
        match space::in_memory(MEMORY_GIB)? {
            Some(folder) => Self::start_in(shell, &folder.join("scratch")).await,
            None => Self::start(shell).await,
        }
    }

    async fn start_in(shell: &mut Shell, folder: &Path) -> Result<Self> {
        let tree = tree::obtain(shell).await?;
        for slot in 0..SLOTS {
            let data_dir = folder.join(slot.to_string());
            if data_dir.exists() {
                match start(&data_dir, &tree).await {
                    Ok(left) => drop(left.stop().await),
                    Err(PostgresError::AlreadyRunning { .. }) => continue,
                    Err(_) => {} // half-made data of a killed run; nothing runs on them
                }
                remove(&data_dir)?;
            }
            match start(&data_dir, &tree).await {
                Ok(postgres) => return Ok(Self { postgres, data_dir }),
                Err(PostgresError::AlreadyRunning { .. }) => {}
                Err(error) => return Err(error).context("cannot start a scratch Postgres"),
            }
        }
        bail!("{SLOTS} scratch servers run already; stop some of them")
    }

    /// A URL of the superuser for its own database.
    pub fn url(&self) -> String {
        self.postgres.url_of("postgres")
    }

    /// Makes `database` and applies the migrations to it.
    pub async fn migrated(&self, database: &str) -> Result<String> {
        self.postgres.run("postgres", &format!("CREATE DATABASE {database}")).await?;
        migrate(&self.postgres, database).await?;
        Ok(self.postgres.url_of(database))
    }

    pub async fn stop(self) -> Result<()> {
        let _ = self.postgres.stop().await;
        remove(&self.data_dir)
    }
}

/// Starts a server on `data_dir` with settings near the product's.
pub async fn start(data_dir: &Path, tree: &Path) -> Result<PrivatePostgres, PostgresError> {
    let settings = Settings {
        bin_dir: Some(tree.join("bin")),
        max_connections: CONNECTIONS,
        ..Settings::new(data_dir)
    };
    PrivatePostgres::start(settings, &Tasks::new()).await
}

/// Applies every migration that the database does not have, and notes it the way sqlx does, so
/// that the program finds a database that it knows.
pub async fn migrate(postgres: &PrivatePostgres, database: &str) -> Result<()> {
    const NOTES: &str = "CREATE TABLE IF NOT EXISTS _sqlx_migrations (
        version BIGINT PRIMARY KEY, description TEXT NOT NULL,
        installed_on TIMESTAMPTZ NOT NULL DEFAULT now(), success BOOLEAN NOT NULL,
        checksum BYTEA NOT NULL, execution_time BIGINT NOT NULL)";
    postgres.run(database, NOTES).await?;
    for migration in migrations()? {
        let Migration { version, description, sql, .. } = &migration;
        let checksum = digest::sha384(sql.as_bytes());
        // One message is one transaction, so a migration and its note come together or not at all.
        // The first statement ends the message with an error where the note exists already.
        let statements = format!(
            "INSERT INTO _sqlx_migrations VALUES \
             ({version}, $text${description}$text$, now(), true, '\\x{checksum}', 0);\n{sql}"
        );
        match postgres.run(database, &statements).await {
            Ok(()) => {}
            Err(PostgresError::Refused { code, .. }) if code == UNIQUE_VIOLATION => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot apply {}", migration.file.display()));
            }
        }
    }
    Ok(())
}

/// SQLSTATE: the row exists already.
const UNIQUE_VIOLATION: &str = "23505";

struct Migration {
    version: i64,
    description: String,
    sql: String,
    file: PathBuf,
}

/// The files named `<version>_<description>.sql`, in order.
fn migrations() -> Result<Vec<Migration>> {
    let folder = root().join("app/store/migrations");
    let mut found = Vec::new();
    let entries = fs::read_dir(&folder)
        .with_context(|| format!("cannot read the migrations in {}", folder.display()))?;
    for entry in entries {
        let file = entry?.path();
        if file.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (version, description) = name.split_once('_').with_context(|| {
            format!("{} is not named <version>_<description>.sql", file.display())
        })?;
        found.push(Migration {
            version: version
                .parse()
                .with_context(|| format!("{} has no number", file.display()))?,
            description: description.replace('_', " "),
            sql: fs::read_to_string(&file)?,
            file,
        });
    }
    found.sort_by_key(|migration| migration.version);
    Ok(found)
}

fn remove(data_dir: &Path) -> Result<()> {
    fs::remove_dir_all(data_dir)
        .with_context(|| format!("cannot remove the scratch data in {}", data_dir.display()))
}
