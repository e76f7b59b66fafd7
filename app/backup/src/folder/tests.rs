use super::*;
use crate::{
    manifest::{FORMAT, Holds},
    part::PartWriter,
};
use std::os::unix::fs::PermissionsExt;

const OURS: Uuid = Uuid::from_u128(1);
const OTHERS: Uuid = Uuid::from_u128(2);

fn write_one(folder: &Folder, installation: Uuid, begun: &str) -> String {
    let mut draft = folder.begin(installation).unwrap();
    finish(&mut draft, installation, begun)
}

fn finish(draft: &mut Draft, installation: Uuid, begun: &str) -> String {
    let mut part =
        PartWriter::create(draft.path(), "database.dump", Holds::Database, None).unwrap();
    part.take(&mut vec![7_u8; 300_000].as_slice()).unwrap();
    let manifest = Manifest {
        format: FORMAT,
        installation,
        famulus: "0.1.0".into(),
        schema: 13,
        postgres: "18.4".into(),
        begun: begun.parse().unwrap(),
        ended: begun.parse().unwrap(),
        parts: vec![part.finish().unwrap()],
        contains: Vec::new(),
        leaves_out: Vec::new(),
    };
    draft.finish(&manifest).unwrap()
}

fn latest() -> Which {
    Which::Latest { before: None }
}

#[test]
fn a_backup_is_named_when_it_is_whole_and_for_its_owners_eyes_alone() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path().join("backups"));
    assert!(folder.list().unwrap().is_empty());
    let mut draft = folder.begin(OURS).unwrap();
    assert!(folder.list().unwrap().is_empty(), "a draft is no backup");
    let name = finish(&mut draft, OURS, "2026-11-24T22:30:29.4171Z");
    drop(draft);
    assert!(name.starts_with("2026-11-24T22-30-29.417Z-"), "{name}");
    assert_eq!(folder.check(&name).unwrap().installation, OURS);
    for (path, mode) in [
        (folder.path().to_owned(), 0o700),
        (folder.of(&name), 0o700),
        (folder.of(&name).join("database.dump"), 0o600),
        (folder.of(&name).join("manifest.json"), 0o600),
        (folder.of(&name).join("SHA256SUMS"), 0o600),
    ] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{path:?}");
    }
    let sums = std::process::Command::new("sha256sum")
        .args(["-c", "SHA256SUMS"])
        .current_dir(folder.of(&name))
        .output()
        .unwrap();
    assert!(sums.status.success(), "{sums:?}");
}

#[test]
fn backups_of_one_second_are_listed_as_they_were_begun() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let begun = |n: u32| format!("2026-11-24T22:30:29.{n:03}Z");
    // Thirty, so that names in an order by chance do not pass.
    let written: Vec<_> = (0..30).map(|n| write_one(&folder, OURS, &begun(n * 7))).collect();
    let listed = folder.list().unwrap().into_iter().map(|backup| backup.name);
    assert_eq!(listed.collect::<Vec<_>>(), written);
}

#[test]
fn a_second_one_at_once_is_refused_and_leaves_the_first_alone() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let mut first = folder.begin(OURS).unwrap();
    let refused = folder.begin(OURS).unwrap_err().to_string();
    let us = format!("process {}; wait", std::process::id());
    assert!(refused.contains(&us), "{refused}");
    write_one(&folder, OTHERS, "2026-11-24T00:00:00Z");
    let name = finish(&mut first, OURS, "2026-11-25T00:00:00Z");
    drop(first);
    folder.check(&name).unwrap();
    folder.begin(OURS).unwrap();
}

#[test]
fn leftovers_of_this_installation_go_and_those_of_others_stay() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let left = |installation| {
        let path = place.path().join(format!("{PARTIAL}{installation}-{}", Uuid::now_v7()));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("database.dump"), "half").unwrap();
        path
    };
    let (ours, others, foreign) = (left(OURS), left(OTHERS), place.path().join("holiday"));
    fs::create_dir(&foreign).unwrap();
    let name = write_one(&folder, OURS, "2026-11-24T00:00:00Z");
    assert!(!ours.exists() && others.exists() && foreign.exists());
    let dropped = folder.begin(OURS).unwrap();
    let path = dropped.path().to_owned();
    assert!(path.exists());
    drop(dropped);
    assert!(!path.exists(), "an unfinished one leaves nothing");
    let names: Vec<String> = folder.list().unwrap().into_iter().map(|found| found.name).collect();
    assert_eq!(names, [name]);
}

#[test]
fn the_latest_is_the_newest_good_one_of_this_installation() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    assert!(matches!(folder.find(&latest(), None), Err(BackupError::None { .. })));
    let old = write_one(&folder, OURS, "2026-11-22T00:00:00Z");
    let new = write_one(&folder, OURS, "2026-11-23T00:00:00Z");
    assert_eq!(folder.find(&latest(), None).unwrap().0, new);
    let before = Which::Latest { before: Some("2026-11-23T00:00:00Z".parse().unwrap()) };
    assert_eq!(folder.find(&before, None).unwrap().0, old);
    let early = Which::Latest { before: Some("2020-01-01T00:00:00Z".parse().unwrap()) };
    let refused = folder.find(&early, None).unwrap_err().to_string();
    assert!(refused.contains("from before 2020-01-01"), "{refused}");

    write_one(&folder, OTHERS, "2026-11-24T00:00:00Z");
    assert!(matches!(folder.find(&latest(), None), Err(BackupError::Several { .. })));
    assert_eq!(folder.find(&latest(), Some(OURS)).unwrap().0, new);

    fs::remove_file(folder.of(&new).join("database.dump")).unwrap();
    assert_eq!(folder.find(&latest(), Some(OURS)).unwrap().0, old, "a damaged one is passed over");
    let named = folder.find(&Which::Named(new), None).unwrap_err();
    assert!(matches!(named, BackupError::Damaged { .. }), "{named}");
    let missing = folder.find(&Which::Named("x".into()), None).unwrap_err();
    assert!(matches!(missing, BackupError::Missing { .. }), "{missing}");
}

#[test]
fn any_flipped_bit_and_any_torn_file_is_found() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let name = write_one(&folder, OURS, "2026-11-24T00:00:00Z");
    for file in ["database.dump", "manifest.json", "SHA256SUMS"] {
        let path = folder.of(&name).join(file);
        let whole = fs::read(&path).unwrap();
        for place in [0, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[place] ^= 1;
            fs::write(&path, &flipped).unwrap();
            let refused = folder.check(&name).unwrap_err();
            assert!(matches!(refused, BackupError::Damaged { .. }), "{file} {place}: {refused}");
            fs::write(&path, &whole[..place]).unwrap();
            let refused = folder.check(&name).unwrap_err();
            assert!(matches!(refused, BackupError::Damaged { .. }), "{file} {place}: {refused}");
        }
        fs::write(&path, &whole).unwrap();
        folder.check(&name).unwrap();
    }
}

#[test]
fn removing_takes_the_name_first_and_only_what_is_this_installations() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let ours = write_one(&folder, OURS, "2026-11-24T00:00:00Z");
    let others = write_one(&folder, OTHERS, "2026-11-24T00:00:00Z");
    let dated = folder.dated(OURS).unwrap();
    assert_eq!(dated.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&ours]);
    folder.remove(&ours, OURS).unwrap();
    assert!(!folder.of(&ours).exists());
    folder.check(&others).unwrap();
}
