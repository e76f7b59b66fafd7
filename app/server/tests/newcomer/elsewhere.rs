//! Backups of a database that somebody else keeps, as in a cluster: its owner sees only what row-level
//! security lets through, and may make no other database.

use crate::{
    home::{hears, said_by, write_key},
    said,
    up::{Place, Up, famulus},
};
use serde_json::Value;
use sqlx::{Connection as _, Executor as _, PgConnection};
use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

/// A server with a role that owns databases and one that reads them for backups.
struct Server {
    url: String,
    name: String,
    databases: Vec<String>,
}

impl Server {
    async fn new() -> Self {
        let url = famulus_test_database::server();
        let name = format!("kept_{}", &uuid::Uuid::now_v7().simple().to_string()[20..]);
        let mut server = Self { url, name, databases: Vec::new() };
        let name = server.name.clone();
        server.admin("postgres", &format!("create role {name}_owner login")).await;
        let reader = format!(
            "create role {name}_backup login bypassrls; grant pg_read_all_data to {name}_backup"
        );
        server.admin("postgres", &reader).await;
        server.database("first").await;
        server
    }

    /// An empty one, with the extension that only a superuser makes.
    async fn database(&mut self, name: &str) {
        let (database, owner) = (format!("{}_{name}", self.name), format!("{}_owner", self.name));
        self.admin("postgres", &format!("create database {database} owner {owner}")).await;
        self.admin(&database, "create extension vector").await;
        self.databases.push(database);
    }

    async fn admin(&self, database: &str, statements: &str) {
        let url = self.url_of("postgres", database);
        famulus_test_database::execute(&url, statements).await.unwrap();
    }

    fn url_of(&self, role: &str, database: &str) -> String {
        let (_, socket) = self.url.split_once('?').unwrap();
        format!("postgres://{role}@localhost:5432/{database}?{socket}")
    }

    fn url(&self, role: &str, database: &str) -> String {
        self.url_of(&format!("{}_{role}", self.name), &format!("{}_{database}", self.name))
    }

    async fn remove(self) {
        for database in &self.databases {
            self.admin("postgres", &format!("drop database {database} with (force)")).await;
        }
        let name = &self.name;
        self.admin("postgres", &format!("drop role {name}_owner, {name}_backup")).await;
    }
}

struct Home {
    place: Place,
    server: Server,
    recipient: String,
}

impl Home {
    fn famulus(&self, role: &str, database: &str, arguments: &[&str]) -> Command {
        let mut command = famulus(&self.place.data());
        command
            .args(arguments)
            .env("DATABASE_URL", self.server.url(role, database))
            .env("FAMULUS_BACKUP__FOLDER", self.place.0.join("backups"))
            .env("FAMULUS_BACKUP__RECIPIENT", &self.recipient)
            .env("FAMULUS_BACKUP__IDENTITY_FILE", self.place.0.join("key"))
            .env("FAMULUS_BACKUP__OVERDUE_HOURS", "30");
        command
    }

    fn good(&self, role: &str, database: &str, arguments: &[&str]) -> String {
        said_by(self.famulus(role, database, arguments))
    }

    fn refused(&self, role: &str, database: &str, arguments: &[&str]) -> String {
        let output = self.famulus(role, database, arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        said(&output)
    }

    fn serve(&self, database: &str) -> Up {
        Up::from(&self.place, self.famulus("owner", database, &["serve"]))
    }
}

/// What the assistant says of its backups, once that holds these words.
async fn stands(up: &Up, words: &str) -> Value {
    let mut status = Value::Null;
    for _ in 0..100 {
        status = up.get("/v1/status").await;
        let checks = status["checks"].as_array().unwrap_or_else(|| panic!("{status}"));
        let backups = checks.iter().find(|check| check["name"] == "backups");
        if backups.is_some_and(|check| check["detail"].as_str().unwrap().contains(words)) {
            return backups.unwrap().clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nothing says {words:?}: {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_somebody_else_is_backed_up_and_comes_back_into_an_empty_one() {
    let place = Place::new("elsewhere");
    let recipient = write_key(&place.0.join("key"));
    let mut home = Home { place, server: Server::new().await, recipient };
    let empty = home.refused("backup", "first", &["backup"]);
    assert!(empty.contains("nothing to back up"), "{empty}");
    let up = home.serve("first");
    up.chat("Remember that my cat is called Miso").await;
    stands(&up, "none yet").await;
    up.stop();

    let hidden = home.refused("owner", "first", &["backup"]);
    assert!(hidden.contains("CREATE ROLE famulus_backup LOGIN BYPASSRLS"), "{hidden}");
    let same = home.good("backup", "first", &["backup", "--before-update"]);
    assert!(same.contains("no backup was taken"), "{same}");
    let told = home.good("backup", "first", &["backup"]);
    let name = told.split(' ').next().unwrap().to_owned();
    let up = home.serve("first");
    stands(&up, &format!("the last is {name}, 0 min old; none was restored yet")).await;
    up.stop();
    let verified = home.good("backup", "first", &["backup", "verify"]);
    assert!(verified.contains(&format!("{name} is good")), "{verified}");

    // It is told, too, that one failed, by the one that failed.
    let mut nowhere = home.famulus("backup", "first", &["backup"]);
    nowhere.env("FAMULUS_BACKUP__FOLDER", "/proc/none");
    assert!(!nowhere.output().unwrap().status.success());
    let up = home.serve("first");
    let check = stands(&up, "none was taken, though one is due").await;
    assert!(check["ok"] == false && check["remedy"].as_str().unwrap().contains("Job"), "{check}");
    hears(&up, "No backup was taken").await;
    up.stop();
    home.good("backup", "first", &["backup"]);
    let up = home.serve("first");
    assert_eq!(stands(&up, "was restored to see, 0 min ago").await["ok"], true);
    up.stop();

    let full = home.refused("owner", "first", &["restore", "latest"]);
    assert!(full.contains("holds an installation already"), "{full}");
    home.server.database("second").await;
    let waits = home.famulus("owner", "second", &["restore", "latest", "--wait"]);
    let mut waits = { waits }.stdout(Stdio::piped()).spawn().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(waits.try_wait().unwrap().is_none(), "nothing is restored yet");
    let told = home.good("owner", "second", &["restore", &name]);
    assert!(told.contains("is restored: everything up to"), "{told}");
    assert!(waits.wait().unwrap().success());
    let again = home.good("owner", "second", &["restore", "latest"]);
    assert!(again.contains(&format!("{name} is restored already")), "{again}");
    let mut gone = home.famulus("owner", "second", &["restore", "latest"]);
    gone.env("FAMULUS_BACKUP__FOLDER", home.place.0.join("empty"));
    let again = said_by(gone);
    assert!(again.contains(&format!("{name} is restored already")), "{again}");
    let up = home.serve("second");
    assert!(up.chat("What is my cat called?").await.contains("Miso"));
    stands(&up, "none yet").await;
    hears(&up, &format!("restored from the backup {name}")).await;
    up.stop();
    home.server.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_restore_left_that_died_is_begun_again() {
    let place = Place::new("elsewhere-died");
    let recipient = write_key(&place.0.join("key"));
    let mut home = Home { place, server: Server::new().await, recipient };
    let up = home.serve("first");
    up.chat("Remember that my cat is called Miso").await;
    up.stop();
    let told = home.good("backup", "first", &["backup"]);
    let name = told.split(' ').next().unwrap().to_owned();

    // As it is after the last statement of `pg_restore`, from a backup of a database that was restored.
    let owner = home.server.url("owner", "first");
    let mut conn = PgConnection::connect(&owner).await.unwrap();
    conn.execute(
        "create table famulus_restoring (); select report_backup('restored', 'older', now(), null)",
    )
    .await
    .unwrap();
    let mut waits = home.famulus("owner", "first", &["restore", "latest", "--wait"]);
    let mut waits = waits.stdout(Stdio::piped()).spawn().unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(waits.try_wait().unwrap().is_none(), "the older restore is not this one");
    // While somebody is at it, another one keeps its hands off.
    let mut busy = PgConnection::connect(&owner).await.unwrap();
    busy.execute("begin; lock table famulus_restoring in share update exclusive mode")
        .await
        .unwrap();
    let second = home.refused("owner", "first", &["restore", &name]);
    assert!(second.contains("being restored by another process"), "{second}");
    busy.close().await.unwrap();
    let told = home.good("owner", "first", &["restore", &name]);
    assert!(told.contains("is restored: everything up to"), "{told}");
    assert!(waits.wait().unwrap().success());
    let left: (bool,) = sqlx::query_as("select to_regclass('famulus_restoring') is not null")
        .fetch_one(&mut conn)
        .await
        .unwrap();
    assert!(!left.0, "the mark is gone");
    conn.close().await.unwrap();

    // One that cannot be had whole leaves an empty database.
    home.server.database("second").await;
    let dump = home.place.0.join("backups").join(&name).join("database.dump.age");
    let whole = fs::read(&dump).unwrap();
    fs::write(&dump, &whole[..whole.len() - 1]).unwrap();
    let torn = home.refused("owner", "second", &["restore", &name]);
    assert!(torn.contains("bytes of"), "{torn}");
    fs::write(&dump, &whole).unwrap();
    let mut keyless = home.famulus("owner", "second", &["restore", &name]);
    write_key(&home.place.0.join("other"));
    keyless.env("FAMULUS_BACKUP__IDENTITY_FILE", home.place.0.join("other"));
    let keyless = keyless.output().unwrap();
    assert!(!keyless.status.success(), "{keyless:?}");
    let mut conn = PgConnection::connect(&home.server.url("owner", "second")).await.unwrap();
    let tables: Vec<(String,)> =
        sqlx::query_as("select tablename::text from pg_tables where schemaname = 'public'")
            .fetch_all(&mut conn)
            .await
            .unwrap();
    assert_eq!(tables, [], "{}", said(&keyless));
    conn.close().await.unwrap();
    home.good("owner", "second", &["restore", &name]);
    let up = home.serve("second");
    assert!(up.chat("What is my cat called?").await.contains("Miso"));
    up.stop();
    home.server.remove().await;
}
