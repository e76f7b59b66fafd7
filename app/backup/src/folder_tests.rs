use super::*;
use crate::{
    backups::{Kept, finish},
    store::tests::{OTHERS, OURS, Place, all, begin, fill, write_one},
};
use std::{os::unix::fs::PermissionsExt, process::Command};

struct InFolder(tempfile::TempDir);

impl InFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("backups")
    }
}

impl Place for InFolder {
    fn kept(&self) -> Kept {
        Kept { store: Arc::new(Folder::new(self.path())) }
    }

    fn read(&self, key: &str) -> Vec<u8> {
        fs::read(self.path().join(key)).unwrap()
    }

    fn write(&self, key: &str, bytes: &[u8]) {
        fs::write(self.path().join(key), bytes).unwrap();
    }

    fn delete(&self, key: &str) {
        fs::remove_file(self.path().join(key)).unwrap();
    }
}

#[test]
fn a_folder_does_what_every_place_does() {
    all(&InFolder::new());
}

#[test]
fn a_backup_is_for_its_owners_eyes_alone_and_checked_without_this_program() {
    let place = InFolder::new();
    let name = write_one(&place.kept(), OURS, "2026-11-24T22:30:29Z");
    let backup = place.path().join(name);
    for (path, mode) in [
        (place.path(), 0o700),
        (backup.clone(), 0o700),
        (backup.join("database.dump"), 0o600),
        (backup.join("manifest.json"), 0o600),
        (backup.join("SHA256SUMS"), 0o600),
    ] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{path:?}");
    }
    let sums =
        Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(&backup).output().unwrap();
    assert!(sums.status.success(), "{sums:?}");
}

#[test]
fn a_second_one_at_once_is_refused_and_leaves_the_first_alone() {
    let (place, begun) = (InFolder::new(), "2026-11-25T00:00:00Z");
    let kept = place.kept();
    let (name, first) = begin(&kept, OURS, begun);
    let refused = kept.store.begin(OURS, "x").map(drop).unwrap_err().to_string();
    let us = format!("process {}; wait", std::process::id());
    assert!(refused.contains(&us), "{refused}");
    write_one(&kept, OTHERS, "2026-11-24T00:00:00Z");
    finish(&*first, &fill(&first, OURS, begun)).unwrap();
    drop(first);
    kept.check(&name).unwrap();
    begin(&kept, OURS, begun);
}

#[test]
fn leftovers_of_this_installation_go_and_those_of_others_stay() {
    let place = InFolder::new();
    let left = |installation| {
        let path = place.path().join(format!("{PARTIAL}{installation}-{}", Uuid::now_v7()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("database.dump"), "half").unwrap();
        path
    };
    let (ours, others, foreign) = (left(OURS), left(OTHERS), place.path().join("holiday"));
    fs::create_dir(&foreign).unwrap();
    let name = write_one(&place.kept(), OURS, "2026-11-24T00:00:00Z");
    assert!(!ours.exists() && others.exists() && foreign.exists());
    let (_, dropped) = begin(&place.kept(), OURS, "2026-11-24T00:00:00Z");
    let path = dropped.path("");
    assert!(path.exists());
    drop(dropped);
    assert!(!path.exists(), "an unfinished one leaves nothing");
    let listed = place.kept().list().unwrap().into_iter().map(|found| found.name);
    assert_eq!(listed.collect::<Vec<_>>(), [name]);
}
