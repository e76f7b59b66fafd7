//! `cargo xtask tidy`: the shape of the workspace, held by tables.
//!
//! Each rule is a file with its table and a pure function from facts to complaints; this one
//! gathers the facts and prints. The same runs as a test, so that a plain test run finds it too.

mod code;
mod dialect;
mod documents;
mod edges;
mod fences;
mod files;
mod foreign;
mod licences;
mod manifests;
mod metrics;
mod point_names;
mod points;
mod released;
mod unsafe_code;

use anyhow::{Result, bail};
use xtask_shell::workspace::{members, root};

/// One broken rule: where, and what to do.
type Complaint = String;

pub(crate) fn run() -> Result<()> {
    let sources = files::sources(root())?;
    for warning in files::growing(&sources) {
        eprintln!("tidy: note: {warning}");
    }
    let complaints = check(&sources)?;
    for complaint in &complaints {
        eprintln!("tidy: {complaint}");
    }
    if !complaints.is_empty() {
        bail!("the workspace is not tidy ({} complaints)", complaints.len());
    }
    eprintln!("tidy: ok ({} source files)", sources.len());
    Ok(())
}

fn check(sources: &[files::Source]) -> Result<Vec<Complaint>> {
    let members = manifests::members(&members()?)?;
    let mut complaints = edges::check(&members);
    complaints.extend(fences::check(&members));
    complaints.extend(fences::check_tools(sources));
    complaints.extend(manifests::check(&members, root())?);
    complaints.extend(files::check(sources));
    complaints.extend(dialect::check(sources));
    complaints.extend(unsafe_code::check(sources));
    complaints.extend(points::check(sources));
    complaints.extend(point_names::check(sources));
    complaints.extend(documents::check(sources, root())?);
    complaints.extend(metrics::check(sources, root())?);
    let built = foreign::built()?;
    complaints.extend(foreign::check(&built));
    complaints.extend(foreign::check_lock(&manifests::read(&root().join("Cargo.lock"))?, &members));
    complaints.extend(licences::check(&built));
    complaints.extend(released::check(&released::built()?));
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let complaints = check(&files::sources(root()).unwrap()).unwrap();
        assert_eq!(complaints, Vec::<Complaint>::new());
    }
}
