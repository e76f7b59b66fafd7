//! App, operator and backups were refused nothing in what tests had them do, by the audit log of a node of
//! `cargo xtask cluster`. What they may do and never did is a question of `rights`.

use std::collections::BTreeMap;

use famulus_cluster_tests::audit::read;
use famulus_cluster_tests::release;

#[test]
fn app_operator_and_backups_were_refused_nothing() {
    let done = read(&release::name());
    assert!(done.requests > 100, "{} requests are in the log", done.requests);
    assert_eq!(done.refused, BTreeMap::new());
}
