//! Backups in a store that speaks S3, which somebody has on another machine.

use crate::{
    home::{said_by, write_key},
    said,
    up::{Place, Up, famulus},
};
use memchr::memmem;
use server::Server;
use std::{fs, process::Command};

#[path = "../../../backup/tests/support/s3.rs"]
mod server;

struct Home {
    place: Place,
    recipient: String,
    store: Server,
}

impl Home {
    fn famulus(&self, arguments: &[&str]) -> Command {
        let mut command = famulus(&self.place.data());
        command
            .args(arguments)
            .env("FAMULUS_BACKUP__RECIPIENT", &self.recipient)
            .env("FAMULUS_BACKUP__IDENTITY_FILE", self.place.0.join("key"))
            .env("FAMULUS_BACKUP__S3__BUCKET", server::BUCKET)
            .env("FAMULUS_BACKUP__S3__PREFIX", "home")
            .env("FAMULUS_BACKUP__S3__ENDPOINT", self.store.endpoint())
            .env("FAMULUS_BACKUP__S3__ACCESS_KEY_ID", server::ACCESS)
            .env("FAMULUS_BACKUP__S3__SECRET_ACCESS_KEY__ENV", "STORE_SECRET")
            .env("STORE_SECRET", server::SECRET);
        command
    }

    fn good(&self, arguments: &[&str]) -> String {
        said_by(self.famulus(arguments))
    }

    fn up(&self) -> Up {
        Up::from(&self.place, self.famulus(&["up"]))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_comes_back_from_a_store_elsewhere() {
    let place = Place::new("bucket");
    let recipient = write_key(&place.0.join("key"));
    let mut home = Home { place, recipient, store: Server::start() };
    let up = home.up();
    up.chat("Remember that my cat is called Miso").await;
    let told = home.good(&["backup"]);
    let name = told.split(' ').next().unwrap().to_owned();
    assert!(told.contains("in s3://backups/home\n"), "{told}");
    let stored = home.store.objects().join("home").join(&name);
    for part in ["database.dump.age", "token.age", "manifest.json", "SHA256SUMS"] {
        let bytes = fs::read(stored.join(part)).unwrap();
        let secret = |word: &str| memmem::find(&bytes, word.as_bytes()).is_some();
        assert!(!secret("Miso") && !secret(server::SECRET) && !secret(&up.token), "{part}");
    }
    let verified = home.good(&["backup", "verify"]);
    assert!(verified.contains(&format!("{name} is good")), "{verified}");
    assert!(!up.stop().contains(server::SECRET), "no secret is logged");

    // Away: with another secret, without the store, and then with the machine.
    let refused = home.famulus(&["backup", "list"]).env("STORE_SECRET", "wrong").output().unwrap();
    assert!(
        !refused.status.success() && said(&refused).contains("the store refused"),
        "{refused:?}"
    );
    home.store.kill();
    let failed = home.famulus(&["backup"]).output().unwrap();
    assert!(!failed.status.success(), "{failed:?}");
    assert!(said(&failed).contains("check that the store can be reached"), "{}", said(&failed));
    home.store.restart();
    let listed = home.good(&["backup", "list"]);
    assert!(listed.lines().count() == 1 && listed.contains(&name), "{listed}");

    fs::remove_dir_all(home.place.data()).unwrap();
    home.good(&["restore", "latest"]);
    let up = home.up();
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Miso"), "{reply}");
    up.stop();
}

#[test]
fn two_places_at_once_are_refused() {
    let place = Place::new("two-places");
    let mut command = famulus(&place.data());
    command
        .arg("up")
        .env("FAMULUS_BACKUP__FOLDER", place.0.join("backups"))
        .env("FAMULUS_BACKUP__S3__BUCKET", "b")
        .env("FAMULUS_BACKUP__S3__ACCESS_KEY_ID", "a")
        .env("FAMULUS_BACKUP__S3__SECRET_ACCESS_KEY__ENV", "STORE_SECRET")
        .env("STORE_SECRET", "x");
    let refused = command.output().unwrap();
    assert!(!refused.status.success() && said(&refused).contains("two places"), "{refused:?}");
    assert!(!place.data().join("postgres").exists(), "it is found out before anything starts");
}
