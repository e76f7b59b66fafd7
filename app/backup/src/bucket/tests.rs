use super::*;
use crate::{
    backups::{Kept, State, finish},
    manifest::{Holds, Manifest},
    part::PartWriter,
    store::tests::{OTHERS, OURS, Place, all, begin, fill, write_one},
};
use famulus_core::{Clock as _, clock::SystemClock};
use secrecy::SecretString;
use server::Server;
use std::{
    fs::{File, FileTimes},
    path::Path,
    time::SystemTime,
};

#[path = "../../tests/support/s3.rs"]
mod server;

const BEGUN: &str = "2026-11-24T00:00:00Z";

fn config(server: &Server) -> S3 {
    S3 {
        bucket: server::BUCKET.to_owned(),
        prefix: "home/cat".to_owned(),
        endpoint: Some(server.endpoint().parse().unwrap()),
        region: "us-east-1".to_owned(),
        access_key_id: server::ACCESS.to_owned(),
        secret_access_key: Some(SecretString::from(server::SECRET)),
        ca_file: None,
    }
}

fn kept(config: &S3) -> Kept {
    Kept { store: Arc::new(Bucket::new(config).unwrap()) }
}

struct InBucket(Server);

impl InBucket {
    fn path(&self, key: &str) -> PathBuf {
        self.0.objects().join("home/cat").join(key)
    }
}

impl Place for InBucket {
    fn kept(&self) -> Kept {
        kept(&config(&self.0))
    }

    fn read(&self, key: &str) -> Vec<u8> {
        fs::read(self.path(key)).unwrap()
    }

    fn write(&self, key: &str, bytes: &[u8]) {
        fs::write(self.path(key), bytes).unwrap();
    }

    fn delete(&self, key: &str) {
        fs::remove_file(self.path(key)).unwrap();
    }
}

/// Does what blocks where it may.
async fn blocking(test: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(test).await.unwrap();
}

fn refused(config: &S3) -> String {
    kept(config).list().unwrap_err().to_string()
}

fn names(kept: &Kept) -> Vec<String> {
    kept.list().unwrap().into_iter().map(|backup| backup.name).collect()
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().map(|entry| entry.unwrap().path());
    let below = entries.map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    below.flatten().collect()
}

#[tokio::test]
async fn a_bucket_does_what_every_place_does() {
    let place = InBucket(Server::start());
    let objects = place.0.objects();
    blocking(move || all(&place)).await;
    assert_eq!(files(&objects), Vec::<PathBuf>::new(), "nothing is left, no mark either");
}

#[tokio::test]
async fn without_a_prefix_what_others_keep_there_is_left_alone() {
    let server = Server::start();
    let foreign = server.objects().join("holiday/picture.jpg");
    fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    fs::write(&foreign, "sea").unwrap();
    fs::write(server.objects().join("letter.txt"), "dear").unwrap();
    blocking(move || {
        let kept = kept(&S3 { prefix: String::new(), ..config(&server) });
        let name = write_one(&kept, OURS, BEGUN);
        assert_eq!(names(&kept), std::slice::from_ref(&name));
        kept.store.remove(&name, OURS).unwrap();
        assert_eq!(names(&kept), Vec::<String>::new());
        assert_eq!(files(&server.objects()).len(), 2);
    })
    .await;
}

/// As long as some chunks, and never the same twice.
fn write_large(draft: &Arc<dyn Draft>, chunks: usize) -> Result<Manifest, BackupError> {
    let mut part =
        PartWriter::create(Arc::clone(draft), "large", Holds::Configuration, None).unwrap();
    let mut state = 1_u64;
    for _ in 0..chunks * 16 + 3 {
        let megabyte: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()
        })
        .take(128 * 1024)
        .flatten()
        .collect();
        part.take(&mut megabyte.as_slice())?;
    }
    let large = part.finish()?;
    let mut manifest = fill(draft, OURS, BEGUN);
    manifest.parts.push(large);
    Ok(manifest)
}

#[tokio::test]
async fn what_is_larger_than_a_chunk_comes_back_byte_by_byte() {
    let place = InBucket(Server::start());
    blocking(move || {
        let kept = place.kept();
        let (name, draft) = begin(&kept, OURS, BEGUN);
        let manifest = write_large(&draft, 2).unwrap();
        finish(&*draft, &manifest).unwrap();
        drop(draft);
        assert_eq!(kept.check(&name).unwrap(), manifest);
        assert_eq!(manifest.bytes(), 35 * 1024 * 1024 + 300_000);
    })
    .await;
}

#[tokio::test]
async fn a_store_that_dies_on_the_way_has_no_new_backup_and_all_old_ones() {
    let mut place = InBucket(Server::start());
    blocking(move || {
        let kept = place.kept();
        let good = write_one(&kept, OURS, "2026-11-23T00:00:00Z");
        let (torn, draft) = begin(&kept, OURS, BEGUN);
        let mut part =
            PartWriter::create(Arc::clone(&draft), "large", Holds::Configuration, None).unwrap();
        part.take(&mut vec![7_u8; 40 * 1024 * 1024].as_slice()).unwrap();
        place.0.kill();
        let mut failed = part.take(&mut vec![7_u8; 40 * 1024 * 1024].as_slice());
        if failed.is_ok() {
            failed = part.finish().map(drop);
        }
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains(&format!("s3://backups/home/cat/{torn}/large")), "{failed}");
        assert!(failed.contains("check that the store can be reached"), "{failed}");
        place.0.restart();
        assert_eq!(names(&kept), std::slice::from_ref(&good));
        kept.check(&good).unwrap();
        draft.discard();
        let objects = files(&place.path(""));
        assert!(objects.iter().all(|file| file.starts_with(place.path(&good))), "{objects:?}");
        let after = write_one(&kept, OURS, "2026-11-25T00:00:00Z");
        assert_eq!(names(&kept), [good, after]);
    })
    .await;
}

#[tokio::test]
async fn nothing_appears_of_what_was_given_up() {
    let place = InBucket(Server::start());
    blocking(move || {
        let kept = place.kept();
        let (_, draft) = begin(&kept, OURS, BEGUN);
        let part = |name| {
            PartWriter::create(Arc::clone(&draft), name, Holds::Configuration, None).unwrap()
        };
        let (mut small, mut large) = (part("small"), part("large"));
        small.take(&mut b"x".as_slice()).unwrap();
        large.take(&mut vec![7_u8; 40 * 1024 * 1024].as_slice()).unwrap();
        draft.discard();
        for late in [small, large] {
            let refused = late.finish().unwrap_err();
            assert!(matches!(refused, BackupError::GivenUp { .. }), "{refused}");
        }
        assert!(draft.create("more").is_err() && draft.name().is_err());
        assert_eq!(files(&place.path("")), Vec::<PathBuf>::new());
    })
    .await;
}

#[tokio::test]
async fn who_is_dropped_where_nothing_may_block_leaves_nothing_either() {
    let place = InBucket(Server::start());
    let (kept, folder) = (place.kept(), place.path(""));
    let draft = tokio::task::spawn_blocking(move || {
        let (_, draft) = begin(&kept, OURS, BEGUN);
        fill(&draft, OURS, BEGUN);
        draft
    });
    let draft = draft.await.unwrap();
    assert_eq!(files(&folder).len(), 2, "a part and a mark");
    drop(draft);
    for _ in 0..500 {
        if files(&folder).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("after ten seconds there is {:?}", files(&folder));
}

#[tokio::test]
async fn what_a_dead_run_left_goes_after_a_day_and_what_lives_or_is_of_others_stays() {
    let place = InBucket(Server::start());
    blocking(move || {
        let kept = place.kept();
        let leave = |installation, begun: &str| {
            let (name, draft) = begin(&kept, installation, begun);
            fill(&draft, installation, begun);
            // Forgotten, as by a process that was killed.
            std::mem::forget(draft);
            name
        };
        let dead = leave(OURS, "2026-11-20T00:00:00Z");
        let alive = leave(OURS, "2026-11-20T01:00:00Z");
        let others = leave(OTHERS, "2026-11-20T02:00:00Z");
        let age = |path: &Path, hours: u64| {
            let then = SystemTime::from(SystemClock.now()) - Duration::from_hours(hours);
            let file = File::options().write(true).open(path).unwrap();
            file.set_times(FileTimes::new().set_modified(then)).unwrap();
        };
        let mark = |installation, name: &str| place.path(&mark_of(installation, name));
        for file in files(&place.path("")) {
            age(&file, 25);
        }
        age(&mark(OURS, &alive), 23);
        let name = write_one(&kept, OURS, BEGUN);
        assert!(!mark(OURS, &dead).exists() && files(&place.path(&dead)).is_empty());
        assert!(mark(OURS, &alive).exists() && !files(&place.path(&alive)).is_empty());
        assert!(mark(OTHERS, &others).exists() && !files(&place.path(&others)).is_empty());
        assert_eq!(names(&kept), [name], "what has a mark is not listed");
    })
    .await;
}

#[tokio::test]
async fn two_at_once_are_both_good() {
    let place = InBucket(Server::start());
    blocking(move || {
        let kept = place.kept();
        let ((one, first), (two, second)) =
            (begin(&kept, OURS, BEGUN), begin(&kept, OURS, "2026-11-24T00:00:01Z"));
        let manifest = fill(&first, OURS, BEGUN);
        finish(&*second, &fill(&second, OURS, "2026-11-24T00:00:01Z")).unwrap();
        assert_eq!(names(&kept), std::slice::from_ref(&two));
        finish(&*first, &manifest).unwrap();
        assert_eq!(names(&kept), [one.clone(), two.clone()]);
        kept.check(&one).unwrap();
        kept.check(&two).unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_is_wrong_is_said_with_its_remedy() {
    let mut server = Server::start();
    blocking(move || {
        let good = config(&server);
        let wrong_secret =
            S3 { secret_access_key: Some(SecretString::from("wrong")), ..good.clone() };
        let said = refused(&wrong_secret);
        assert!(said.contains("the store refused") && said.contains("access_key_id"), "{said}");
        assert!(!said.contains("wrong") && !said.contains(server::SECRET), "{said}");
        let said = refused(&S3 { bucket: "nothing-here".to_owned(), ..good.clone() });
        assert!(said.contains("NoSuchBucket") && said.contains("holds the bucket"), "{said}");
        let missing = S3 { secret_access_key: None, ..good.clone() };
        let said = Bucket::new(&missing).unwrap_err().to_string();
        assert!(said.contains("`backup.s3.secret_access_key` is missing"), "{said}");
        let ca_file = Some(PathBuf::from("/nowhere/ca.pem"));
        let said = Bucket::new(&S3 { ca_file, ..good.clone() }).unwrap_err().to_string();
        assert!(said.contains("/nowhere/ca.pem, cannot be used"), "{said}");
        let shown = format!("{good:?} {:?}", Bucket::new(&good).unwrap());
        assert!(!shown.contains(server::SECRET), "{shown}");
        server.kill();
        let said = refused(&good);
        assert!(said.contains("s3://backups/home/cat cannot be listed"), "{said}");
        assert!(said.contains("check that the store can be reached"), "{said}");
    })
    .await;
}

#[tokio::test]
async fn a_store_with_a_certificate_of_its_own_is_trusted_by_name() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(path("cert.pem"), own.cert.pem()).unwrap();
    fs::write(path("key.pem"), own.signing_key.serialize_pem()).unwrap();
    let tls = Some((path("cert.pem"), path("key.pem")));
    let address = server::free(std::net::Ipv4Addr::LOCALHOST.into());
    let server = Server::in_folder(scratch.path(), address, tls);
    let ca_file = Some(path("cert.pem"));
    blocking(move || {
        let said = refused(&config(&server));
        assert!(said.contains("`backup.s3`"), "{said}");
        let trusted = S3 { ca_file, ..config(&server) };
        let name = write_one(&kept(&trusted), OURS, BEGUN);
        kept(&trusted).check(&name).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_backup_without_its_manifest_is_listed_as_damaged() {
    let place = InBucket(Server::start());
    blocking(move || {
        let kept = place.kept();
        let name = write_one(&kept, OURS, BEGUN);
        place.delete(&format!("{name}/manifest.json"));
        let listed = kept.list().unwrap();
        let State::Damaged(reason) = &listed[0].state else { panic!("{listed:?}") };
        assert!(reason.contains("manifest.json"), "{reason}");
    })
    .await;
}
