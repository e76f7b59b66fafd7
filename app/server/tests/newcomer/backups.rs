//! Backups as somebody takes them, loses everything, and gets it back.

use crate::{
    home::{Home, PATIENCE, hears, printed, said_by, stands, write_key},
    said,
};
use famulus_core::{Clock as _, clock::SystemClock};
use memchr::memmem;
use serde_json::json;
use sqlx::{Connection as _, Executor as _, PgConnection};
use std::{
    fs,
    net::TcpListener,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_comes_back() {
    let home = Home::new("backup");
    assert!(home.refused(&["backup"]).contains("there is no database"));
    let up = home.up();
    let token = up.token.clone();
    up.chat("Remember that my cat is called Miso").await;
    let due = in_a_while(Duration::from_secs(15));
    let rule = json!({ "kind": "at", "at": due });
    let (status, made) = up.post("/v1/schedules", json!({ "note": "x", "rule": rule })).await;
    assert_eq!(status, 201, "{made}");
    put_a_message_on_its_way(&mut home.database().await).await;
    let began = Instant::now();
    let told = home.good(&["backup"]);
    let first = told.split(' ').next().unwrap().to_owned();
    for words in ["holds      the database", "holds      the owner's first token"] {
        assert!(told.contains(words), "{told}");
    }
    assert_eq!(home.names(), std::slice::from_ref(&first));
    let listed = home.good(&["backup", "list"]);
    assert!(listed.contains(&first) && listed.contains("encrypted"), "{listed}");
    let everything = fs::read(home.dump_of(&first)).unwrap();
    for word in ["Miso", "PGDM"] {
        assert!(memmem::find(&everything, word.as_bytes()).is_none(), "{word}");
    }
    let refused = home.refused(&["restore", "latest"]);
    assert!(refused.contains("famulus is running"), "{refused}");
    let canary = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    canary.set_nonblocking(true).unwrap();
    let out = format!("http://{}/", canary.local_addr().unwrap());
    let mut verify = home.famulus(&["backup", "verify"]);
    for way in ["FAMULUS_CHANNELS__HTTP__WEBHOOK_URL", "FAMULUS_MODEL__BASE_URL"] {
        verify.env(way, &out);
    }
    verify.env("FAMULUS_MODEL__NAME", "any");
    let verified = said_by(verify);
    assert!(verified.contains(&format!("{first} is good")), "{verified}");
    assert!(verified.contains("every file is whole"), "{verified}");
    assert!(verified.contains("a turn that begins now is answered"), "{verified}");
    let heard = canary.accept().map(drop).unwrap_err();
    assert_eq!(heard.kind(), std::io::ErrorKind::WouldBlock, "nothing leaves a drill");
    assert!(!home.place.data().join("verify").exists(), "the drill leaves nothing");
    stands(&up, "none yet; the first is taken within minutes").await;

    up.chat("Remember that my dog is called Rex").await;
    up.stop();
    let second = home.backup();
    assert_eq!(home.names(), [first.clone(), second.clone()]);

    fs::remove_dir_all(home.place.data()).unwrap();
    std::thread::sleep(Duration::from_secs(16).saturating_sub(began.elapsed()));
    let told = home.good(&["restore", &first]);
    assert!(told.contains("A message was on its way out"), "{told}");
    assert!(told.contains("A slot of a schedule passed"), "{told}");
    let up = home.up();
    assert_eq!(up.token, token, "a token cannot be made again");
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Miso"), "{reply}");
    let (state, jobs): (String, i64) = sqlx::query_as(
        "select (select state from outbox),
                (select count(*) from queue_job where class = 'delivery')
                    + (select sum(pending) from queue_lane where class = 'delivery')::bigint",
    )
    .fetch_one(&mut home.database().await)
    .await
    .unwrap();
    assert_eq!((state.as_str(), jobs), ("unknown", 0), "it is not sent again");
    hears(&up, &format!("was restored from the backup {first}; what was said since")).await;
    hears(&up, "On their way out were 1 messages").await;
    up.stop();

    let refused = home.refused(&["restore", "latest"]);
    assert!(refused.contains("--replace"), "{refused}");
    let refused = home.replace("latest", "yes\n");
    assert!(said(&refused).contains("nothing was changed"), "{}", said(&refused));
    let replaced = home.replace("latest", "replace\n");
    assert!(replaced.status.success(), "{}", said(&replaced));
    let up = home.up();
    let reply = up.chat("What is my dog called?").await;
    assert!(reply.contains("Rex"), "{reply}");
    home.good(&["backup", "verify"]);
    stands(&up, &format!("the last is {second}, ")).await;
    let databases: i64 =
        sqlx::query_scalar("select count(*) from pg_database where datname ~ 'famulus'")
            .fetch_one(&mut home.database().await)
            .await
            .unwrap();
    assert_eq!(databases, 1, "the old one is gone once the new one answered");
    up.stop();
}

/// As its worker would have it that waits for another try.
async fn put_a_message_on_its_way(database: &mut PgConnection) {
    database
        .execute(
            "with sent as (
                 insert into outbox (id, person_id, conversation_id, turn_id, address, body, state)
                 select gen_random_uuid(), t.person_id, t.conversation_id, t.id,
                        '{\"channel\": \"http\", \"account\": \"\", \"chat\": \"x\"}', '{}', 'pending'
                 from turn t limit 1
                 returning id, person_id, conversation_id
             ), job as (
                 insert into queue_job (id, class, lane, person_id)
                 select id, 'delivery', conversation_id, person_id from sent
             )
             insert into queue_lane (class, id, state, due_at, pending)
             select 'delivery', conversation_id, 'waiting', now() + interval '1 hour', 1 from sent",
        )
        .await
        .unwrap();
}

fn in_a_while(after: Duration) -> String {
    (SystemClock.now() + after).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_backup_is_not_taken_for_a_good_one() {
    let home = Home::new("damaged");
    let up = home.up();
    up.chat("Remember that my cat is called Miso").await;
    up.stop();
    let (good, bad) = (home.backup(), home.backup());
    let dump = home.dump_of(&bad);
    let whole = fs::read(&dump).unwrap();

    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(&dump, &flipped).unwrap();
    for arguments in [["backup", "verify", &bad].as_slice(), &["restore", &bad, "--replace"]] {
        let refused = home.refused(arguments);
        assert!(refused.contains(&bad) && refused.contains("is not what was written"), "{refused}");
    }
    fs::write(&dump, &whole[..whole.len() - 1]).unwrap();
    let refused = home.refused(&["backup", "verify", &bad]);
    assert!(refused.contains("bytes of"), "{refused}");
    let listed = home.good(&["backup", "list"]);
    assert!(listed.contains(&format!("{bad}  damaged")), "{listed}");
    let verified = home.good(&["backup", "verify"]);
    assert!(verified.contains(&format!("{good} is good")), "the good one counts: {verified}");

    let key = home.place.0.join("key");
    let right = fs::read(&key).unwrap();
    write_key(&key);
    let refused = home.refused(&["backup", "verify", &good]);
    assert!(
        refused.contains("another key") && refused.contains("backup.identity_file"),
        "{refused}"
    );
    fs::remove_file(&key).unwrap();
    let refused = home.refused(&["backup", "verify", &good]);
    assert!(refused.contains("cannot be read"), "{refused}");
    fs::write(&key, right).unwrap();

    let manifest = home.backups().join(&good).join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut newer: serde_json::Value = serde_json::from_str(&text).unwrap();
    newer["format"] = json!(999);
    fs::write(&manifest, newer.to_string()).unwrap();
    let refused = home.refused(&["restore", &good]);
    assert!(refused.contains("use a newer famulus"), "{refused}");
    newer["format"] = json!(1);
    newer["schema"] = json!(999);
    fs::write(&manifest, newer.to_string()).unwrap();
    let sums = home.backups().join(&good).join("SHA256SUMS");
    let written = fs::read_to_string(&sums).unwrap();
    let files = written.lines().map(|line| line.rsplit(' ').next().unwrap());
    let fitting = Command::new("sha256sum")
        .args(files)
        .current_dir(home.backups().join(&good))
        .output()
        .unwrap();
    fs::write(&sums, fitting.stdout).unwrap();
    let refused = home.refused(&["backup", "verify", &good]);
    assert!(refused.contains("schema 999") && refused.contains("newer one"), "{refused}");
    fs::write(&sums, written).unwrap();
    fs::write(&manifest, &text).unwrap();

    let up = home.up();
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Miso"), "what was there is as it was: {reply}");
    up.stop();
    home.good(&["backup", "verify", &good]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_fails_loses_no_good_one() {
    let home = Home::new("failing");
    let up = home.up();
    up.chat("Remember that my cat is called Miso").await;
    let good = home.backup();

    // Held like this, a table makes the dump wait.
    let mut holder = home.database().await;
    let mut held = holder.begin().await.unwrap();
    held.execute("lock table knowledge in access exclusive mode").await.unwrap();
    let mut killed = home.famulus(&["backup"]);
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let partial = |name: &String| name.starts_with(".partial-");
    let began = Instant::now();
    while !home.names().iter().any(partial) {
        assert!(began.elapsed() < PATIENCE, "it does not begin");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = home.refused(&["backup"]);
    let by = format!("by process {}", killed.id());
    assert!(refused.contains("another backup") && refused.contains(&by), "{refused}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    held.rollback().await.unwrap();
    assert!(home.names().iter().any(partial), "what a killed one leaves has no backup's name");
    let listed = home.good(&["backup", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let second = home.backup();
    assert_eq!(home.names(), [good.clone(), second], "what was left is gone");

    let output = on_a_full_disk(&home);
    let (told, error) = (printed(&output), said(&output));
    assert!(error.contains("is full") && error.contains("free some space"), "{error}");
    assert!(told.contains("ended with 1") && told.contains(&good), "{told}");
    assert!(!told.contains(".partial-"), "it leaves nothing: {told}");
    up.stop();
    home.good(&["backup", "verify", &good]);
}

/// As the release before would have left it: without what the newest migration adds.
const OLDER: &str = "drop table plugin_event, plugin;
     delete from _sqlx_migrations where version = (select max(version) from _sqlx_migrations)";

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_comes_before_an_update_changes_the_database() {
    let home = Home::new("updated");
    let up = home.up();
    up.chat("Remember that my cat is called Miso").await;
    let mut database = home.database().await;
    let newest = sqlx::query_scalar("select max(version) from _sqlx_migrations");
    let newest: i64 = newest.fetch_one(&mut database).await.unwrap();
    let older = newest - 1;
    database.execute(OLDER).await.unwrap();
    database.close().await.unwrap();
    up.stop();

    fs::write(home.backups(), "no folder").unwrap();
    let refused = home.refused(&["up"]);
    let change = format!("schema {older} to {newest}");
    for words in ["nothing was changed", &change, "backup.before_updates"] {
        assert!(refused.contains(words), "{refused}");
    }
    fs::remove_file(home.backups()).unwrap();
    assert!(home.good(&["backup", "list"]).contains("There is no backup"));
    let up = home.up();
    let (names, listed) = (home.names(), home.good(&["backup", "list"]));
    assert_eq!(names.len(), 1, "{listed}");
    let manifest =
        fs::read_to_string(home.backups().join(&names[0]).join("manifest.json")).unwrap();
    let schema = format!("\"schema\": {older}");
    assert!(manifest.contains(&schema), "it was taken before: {manifest}");
    let reply = up.chat("What is my cat called?").await;
    assert!(reply.contains("Miso"), "{reply}");
    up.stop();
    home.up().stop();
    assert_eq!(home.names(), names, "where nothing is to change, none is taken");
    let replaced = home.replace(&names[0], "replace\n");
    assert!(replaced.status.success(), "{}", said(&replaced));
}

mod soak {
    use super::*;

    /// It takes the minute that a start is left alone for.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_backup_is_taken_by_itself() {
        let home = Home::new("by-itself");
        let up = home.up();
        let began = Instant::now();
        while !home.good(&["backup", "list"]).contains("encrypted") {
            assert!(began.elapsed() < 3 * PATIENCE, "no backup is taken");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let name = home.names().remove(0);
        let restored =
            format!("the last is {name}, 0 min old; {name} was restored to see, 0 min ago");
        stands(&up, &restored).await;
        let log = up.stop();
        assert!(log.contains("a backup was taken"), "{log}");
        home.good(&["backup", "verify"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_owner_is_told_that_none_was_taken() {
        let home = Home::new("not-taken");
        fs::write(home.backups(), "no folder").unwrap();
        let up = home.up();
        let began = Instant::now();
        let told = loop {
            let messages = up.get("/v1/conversations/main/messages").await.to_string();
            if messages.contains("No backup was taken, though one is due") {
                break messages;
            }
            assert!(began.elapsed() < 3 * PATIENCE, "nobody is told: {messages}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        assert!(told.contains(home.backups().to_str().unwrap()), "{told}");
        let log = up.stop();
        assert!(log.contains("no backup was taken, though one is due"), "{log}");
    }
}

/// Takes a backup into a file system that has room for those that are there, and not for another.
fn on_a_full_disk(home: &Home) -> Output {
    let inner = home.famulus(&["backup"]);
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--map-current-user", "--keep-caps"]);
    }
    command.args(["--mount", "sh", "-c"]).arg(
        r#"cp -a "$1" "$1.there" && mount -t tmpfs -o "size=$(du -sk "$1" | cut -f1)k,mode=700" none "$1" &&
           cp -a "$1.there/." "$1" && rm -r "$1.there" || exit 9
           "$2" backup; echo "ended with $?"; ls -A "$1""#,
    );
    command.arg("sh").arg(home.backups()).arg(inner.get_program());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).output().unwrap()
}
