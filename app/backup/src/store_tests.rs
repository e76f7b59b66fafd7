//! What every place must do, whatever it is.

use super::*;
use crate::{
    backups::{Kept, State, Which, finish, name_of},
    manifest::{FORMAT, Holds, Manifest},
    part::PartWriter,
};

pub(crate) const OURS: Uuid = Uuid::from_u128(1);
pub(crate) const OTHERS: Uuid = Uuid::from_u128(2);

/// A place, and a way to what it keeps past everything that it does.
pub(crate) trait Place {
    fn kept(&self) -> Kept;
    fn read(&self, key: &str) -> Vec<u8>;
    fn write(&self, key: &str, bytes: &[u8]);
    fn delete(&self, key: &str);
}

pub(crate) fn begin(kept: &Kept, installation: Uuid, begun: &str) -> (String, Arc<dyn Draft>) {
    let name = name_of(begun.parse().unwrap());
    let draft = kept.store.begin(installation, &name).unwrap();
    (name, draft)
}

pub(crate) fn fill(draft: &Arc<dyn Draft>, installation: Uuid, begun: &str) -> Manifest {
    let part =
        PartWriter::create(Arc::clone(draft), "database.dump", Holds::Database, None).unwrap();
    let mut part = part;
    part.take(&mut vec![7_u8; 300_000].as_slice()).unwrap();
    Manifest {
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
    }
}

pub(crate) fn write_one(kept: &Kept, installation: Uuid, begun: &str) -> String {
    let (name, draft) = begin(kept, installation, begun);
    finish(&*draft, &fill(&draft, installation, begun)).unwrap();
    name
}

fn names(kept: &Kept) -> Vec<String> {
    kept.list().unwrap().into_iter().map(|backup| backup.name).collect()
}

pub(crate) fn all(place: &dyn Place) {
    nothing_is_there_before_it_has_its_name(place);
    backups_of_one_second_are_listed_as_they_were_begun(place);
    the_latest_is_the_newest_good_one_of_this_installation(place);
    any_flipped_bit_and_any_torn_file_is_found(place);
    removing_leaves_all_others(place);
}

fn clear(kept: &Kept) {
    for name in names(kept) {
        kept.store.remove(&name, OURS).unwrap();
    }
    assert!(names(kept).is_empty());
}

fn nothing_is_there_before_it_has_its_name(place: &dyn Place) {
    let (kept, begun) = (place.kept(), "2026-11-24T22:30:29.4171Z");
    assert!(names(&kept).is_empty());
    assert!(matches!(kept.find(&latest(), None), Err(BackupError::None { .. })));
    let (name, draft) = begin(&kept, OURS, begun);
    assert!(name.starts_with("2026-11-24T22-30-29.417Z-"), "{name}");
    assert!(names(&kept).is_empty());
    let manifest = fill(&draft, OURS, begun);
    assert!(names(&kept).is_empty());
    finish(&*draft, &manifest).unwrap();
    assert_eq!(names(&kept), std::slice::from_ref(&name));
    assert_eq!(kept.check(&name).unwrap(), manifest);
    // Who has a name is not discarded.
    draft.discard();
    drop(draft);
    kept.check(&name).unwrap();

    let (_, draft) = begin(&kept, OURS, begun);
    fill(&draft, OURS, begun);
    draft.discard();
    drop(draft);
    assert_eq!(names(&kept), [name]);
    clear(&kept);
}

fn backups_of_one_second_are_listed_as_they_were_begun(place: &dyn Place) {
    let kept = place.kept();
    let begun = |n: u32| format!("2026-11-24T22:30:29.{n:03}Z");
    // So many that names in an order by chance do not pass.
    let written: Vec<_> = (0..12).map(|n| write_one(&kept, OURS, &begun(n * 7))).collect();
    assert_eq!(names(&kept), written);
    clear(&kept);
}

fn latest() -> Which {
    Which::Latest { before: None }
}

fn the_latest_is_the_newest_good_one_of_this_installation(place: &dyn Place) {
    let kept = place.kept();
    let old = write_one(&kept, OURS, "2026-11-22T00:00:00Z");
    let new = write_one(&kept, OURS, "2026-11-23T00:00:00Z");
    assert_eq!(kept.find(&latest(), None).unwrap().0, new);
    let before = Which::Latest { before: Some("2026-11-23T00:00:00Z".parse().unwrap()) };
    assert_eq!(kept.find(&before, None).unwrap().0, old);
    let early = Which::Latest { before: Some("2020-01-01T00:00:00Z".parse().unwrap()) };
    let refused = kept.find(&early, None).unwrap_err().to_string();
    assert!(refused.contains("from before 2020-01-01"), "{refused}");

    write_one(&kept, OTHERS, "2026-11-24T00:00:00Z");
    assert!(matches!(kept.find(&latest(), None), Err(BackupError::Several { .. })));
    assert_eq!(kept.find(&latest(), Some(OURS)).unwrap().0, new);

    place.delete(&format!("{new}/database.dump"));
    assert_eq!(kept.find(&latest(), Some(OURS)).unwrap().0, old, "a damaged one is passed over");
    let named = kept.find(&Which::Named(new.clone()), None).unwrap_err();
    assert!(matches!(named, BackupError::Damaged { .. }), "{named}");
    place.delete(&format!("{new}/manifest.json"));
    let listed = kept.list().unwrap();
    let listed = listed.iter().find(|backup| backup.name == new);
    assert!(listed.is_none_or(|backup| matches!(backup.state, State::Damaged(_))));
    for name in ["x", "../x", "", "2026-11-24T22-30-29.417Z-00000000"] {
        let missing = kept.find(&Which::Named(name.into()), None).unwrap_err();
        assert!(matches!(missing, BackupError::Missing { .. }), "{missing}");
        let missing = kept.check(name).unwrap_err();
        assert!(matches!(missing, BackupError::Missing { .. }), "{missing}");
    }
    clear(&kept);
}

fn any_flipped_bit_and_any_torn_file_is_found(place: &dyn Place) {
    let kept = place.kept();
    let name = write_one(&kept, OURS, "2026-11-24T00:00:00Z");
    for file in ["database.dump", "manifest.json", "SHA256SUMS"] {
        let key = format!("{name}/{file}");
        let whole = place.read(&key);
        for at in [0, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            for broken in [&flipped, &whole[..at]] {
                place.write(&key, broken);
                let refused = kept.check(&name).unwrap_err();
                let damaged = matches!(refused, BackupError::Damaged { .. });
                assert!(damaged, "{file}, {at}, {} bytes: {refused}", broken.len());
            }
        }
        place.write(&key, &whole);
        kept.check(&name).unwrap();
    }
    clear(&kept);
}

fn removing_leaves_all_others(place: &dyn Place) {
    let kept = place.kept();
    let ours = write_one(&kept, OURS, "2026-11-24T00:00:00Z");
    let others = write_one(&kept, OTHERS, "2026-11-24T00:00:00Z");
    let dated = kept.dated(OURS).unwrap();
    assert_eq!(dated.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&ours]);
    kept.store.remove(&ours, OURS).unwrap();
    assert_eq!(names(&kept), std::slice::from_ref(&others));
    kept.check(&others).unwrap();
    clear(&kept);
}
