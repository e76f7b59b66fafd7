//! The audit log of a node of `cargo xtask cluster`: what app, operator and backups asked the API server for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};

use serde_json::Value;

use crate::beside::node;

/// The accounts of a release.
pub const ACCOUNTS: [&str; 3] = ["app", "operator", "backup"];

/// An account, its namespace, and a resource with a verb.
pub type Right = (&'static str, String, String);

/// What accounts of a release asked the API server for.
#[derive(Debug, Default)]
pub struct Done {
    pub used: BTreeSet<Right>,
    /// How often, by account, resource and verb.
    pub refused: BTreeMap<String, usize>,
    pub requests: usize,
}

/// What the log says of these accounts.
pub fn read(system: &str) -> Done {
    let path = node().join("audit.log");
    let mut done = Done::default();
    for line in BufReader::new(File::open(&path).unwrap()).lines() {
        let line = line.unwrap();
        let of = |account: &&&str| {
            let user = format!("\"system:serviceaccount:{system}:{system}-{account}\"");
            line.contains(&user)
        };
        let Some(account) = ACCOUNTS.iter().find(of) else { continue };
        // Lines are whole but for one that is being written.
        let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
        // Tests ask in the name of accounts, too.
        let own = format!("system:serviceaccount:{system}:{system}-{account}");
        if event["user"]["username"] != own.as_str() || event["objectRef"].is_null() {
            continue;
        }
        done.requests += 1;
        note(&mut done, account, &event);
    }
    done
}

fn note(done: &mut Done, account: &'static str, event: &Value) {
    let (object, code) = (&event["objectRef"], event["responseStatus"]["code"].as_i64());
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let mut what = text("resource").to_owned();
    for (key, before) in [("apiGroup", '.'), ("subresource", '/')] {
        if !text(key).is_empty() {
            what.push(before);
            what.push_str(text(key));
        }
    }
    let verb = event["verb"].as_str().unwrap();
    if matches!(code, Some(401 | 403)) {
        *done.refused.entry(format!("{account}: {what} {verb}")).or_default() += 1;
        return;
    }
    // Whoever applies what is not there creates it, and needs the right to.
    let created = verb == "patch" && code == Some(201);
    for verb in [verb].into_iter().chain(created.then_some("create")) {
        done.used.insert((account, text("namespace").to_owned(), format!("{what} {verb}")));
    }
}
