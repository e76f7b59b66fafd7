//! What the operator makes, compared with the committed snapshots, and with what must always hold.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod cases;
mod checker;
mod generated;
mod generator;

use std::fs;
use std::path::Path;

#[test]
fn what_is_made_is_what_was_read_by_a_person() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rendered/snapshots");
    let remedy = "cargo run -p famulus-operator --example rendered, and read the difference";
    for (name, text) in cases::all().unwrap() {
        let committed = fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert_eq!(committed, text, "{name} differs; {remedy}");
    }
}

/// What Pod Security `restricted` asks for, and what we ask for beyond.
#[test]
fn every_pod_is_confined() {
    for (name, text) in cases::all().unwrap() {
        let count = |words: &str| text.matches(words).count();
        let pods = count("dnsPolicy: None");
        let containers = count("image: localhost/famulus/runner");
        assert!(pods > 0 && containers >= pods, "{name}");
        for each in [
            "automountServiceAccountToken: false\n",
            "enableServiceLinks: false",
            "type: RuntimeDefault",
            "runAsUser: 34567",
            "runAsGroup: 34567",
            "fsGroup: 34567",
        ] {
            assert!(count(each) >= pods, "{name}: {each}");
        }
        for each in ["readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "- ALL"] {
            assert_eq!(count(each), containers, "{name}: {each}");
        }
        for each in ["limits:", "requests:", "ephemeral-storage:"] {
            assert!(count(each) >= containers, "{name}: {each}");
        }
        assert_eq!(count("emptyDir:"), count("sizeLimit:"), "{name}");
        for never in ["hostPath", "hostNetwork", "hostPID", "privileged: true", "secretKeyRef"] {
            assert_eq!(count(never), 0, "{name}: {never}");
        }
    }
}
