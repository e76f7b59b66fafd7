//! Who may do what, all of it: a right that is added is added here too.

use serde_json::Value;

use super::{CASES, Case, called, kind, list, name, namespace, objects};

/// Role, where it holds (S: sandbox, R: the release's own), and its rules in short.
type Granted = (&'static str, &'static str, &'static [&'static str]);

/// Of every release.
const RIGHTS: [Granted; 5] = [
    (
        "home-app",
        "S",
        &[
            "famulus.dev plugins: create delete get list patch watch",
            " secrets: create",
            "famulus.dev plugins/scale: patch",
            " pods: list watch",
            " pods/log: get",
        ],
    ),
    (
        "home-operator",
        "S",
        &[
            "famulus.dev plugins: list watch",
            "famulus.dev plugins/status: patch",
            "famulus.dev plugins/finalizers: update",
            "apps deployments: list watch create patch",
            "batch jobs: list watch create patch delete",
            " persistentvolumeclaims serviceaccounts: list watch create patch",
            " secrets: get create patch delete",
            " pods: list watch patch delete",
            " events: list watch",
            "events.k8s.io events: create patch",
        ],
    ),
    (
        "home-operator",
        "R",
        &[
            "coordination.k8s.io leases: create",
            "coordination.k8s.io leases (home-operator): get update",
        ],
    ),
    (
        "home-retire",
        "R",
        &[
            "apps deployments/scale (home home-operator): get patch",
            "coordination.k8s.io leases (home-operator): delete",
            " pods: list",
        ],
    ),
    (
        "home-retire",
        "S",
        &[
            "apps deployments: list deletecollection",
            "batch jobs: list deletecollection",
            " serviceaccounts: list deletecollection",
            "famulus.dev plugins: list patch",
            " pods: list",
        ],
    ),
];

const BOOTSTRAP: Granted =
    ("home-bootstrap", "R", &[" secrets: create", " namespaces (assistant): patch"]);

/// Where backups go to a claim of the release.
const BOOTSTRAP_WITH_A_CLAIM: Granted = (
    "home-bootstrap",
    "R",
    &[" secrets: create", " persistentvolumeclaims: create", " namespaces (assistant): patch"],
);

const BACKUP: Granted = (
    "home-backup",
    "S",
    &["famulus.dev plugins: list", "famulus.dev plugins/scale: patch", " pods: list"],
);

const RESTORE_SECRETS: Granted = ("home-restore-secrets", "R", &[" secrets: create"]);
const RESTORE: Granted = (
    "home-restore",
    "S",
    &[
        "famulus.dev plugins: create list patch",
        " secrets: create",
        "famulus.dev plugins/scale: patch",
        " pods: list",
    ],
);

#[test]
fn these_are_all_rights_that_there_are() {
    let check = |case: &Case, further: &[Granted]| {
        let objects = objects(case);
        let mut found: Vec<(String, &str, Vec<String>)> = Vec::new();
        for role in objects.iter().filter(|object| kind(object) == "Role") {
            let place = if namespace(role) == "assistant" { "R" } else { "S" };
            found.push((
                name(role).to_owned(),
                place,
                list(role, "/rules").iter().map(short).collect(),
            ));
        }
        let mut expected: Vec<(String, &str, Vec<String>)> = RIGHTS
            .iter()
            .chain(further)
            .map(|(name, place, rules)| {
                ((*name).to_owned(), *place, rules.iter().map(ToString::to_string).collect())
            })
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{}", case.name);
    };
    let [defaults, own_postgres, _, _, existing, everything, restored, own_backups] = &CASES;
    check(defaults, &[BOOTSTRAP_WITH_A_CLAIM, BACKUP]);
    check(own_postgres, &[BOOTSTRAP]);
    check(existing, &[BOOTSTRAP_WITH_A_CLAIM, BACKUP]);
    check(everything, &[BOOTSTRAP, BACKUP]);
    check(restored, &[BOOTSTRAP, BACKUP, RESTORE_SECRETS, RESTORE]);
    check(own_backups, &[BOOTSTRAP_WITH_A_CLAIM, BACKUP]);
}

#[test]
fn nothing_is_granted_in_the_whole_cluster_and_nothing_by_a_star() {
    for case in &CASES {
        for object in objects(case) {
            let called = called(case, &object);
            assert!(!kind(&object).starts_with("ClusterRole"), "{called}");
            if kind(&object) == "Role" {
                assert!(!object["rules"].to_string().contains('*'), "{called}");
            }
        }
    }
}

#[test]
fn each_role_is_bound_to_the_account_of_its_name_alone() {
    for case in &CASES {
        let objects = objects(case);
        let bindings = objects.iter().filter(|object| kind(object) == "RoleBinding");
        let mut bound = Vec::new();
        for binding in bindings {
            let called = called(case, binding);
            let subjects = list(binding, "/subjects");
            assert_eq!(subjects.len(), 1, "{called}");
            assert_eq!(subjects[0]["kind"], "ServiceAccount", "{called}");
            assert_eq!(subjects[0]["namespace"], "assistant", "{called}");
            assert_eq!(subjects[0]["name"], binding["metadata"]["name"], "{called}");
            assert_eq!(binding["roleRef"]["name"], binding["metadata"]["name"], "{called}");
            bound.push((namespace(binding), name(binding)));
        }
        let roles = objects.iter().filter(|object| kind(object) == "Role");
        let roles: Vec<(&str, &str)> = roles.map(|role| (namespace(role), name(role))).collect();
        assert_eq!(bound, roles, "{}", case.name);
    }
}

fn short(rule: &Value) -> String {
    let words = |pointer: &str| {
        list(rule, pointer).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
    };
    let names = match words("/resourceNames") {
        names if names.is_empty() => names,
        names => format!(" ({names})"),
    };
    format!("{} {}{names}: {}", words("/apiGroups"), words("/resources"), words("/verbs"))
}
