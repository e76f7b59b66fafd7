//! Tests of a whole installation on a real cluster, from outside: by kubectl, helm and HTTP.
//!
//! They need an installed release, and say so when there is none: `cargo xtask test` makes a cluster,
//! installs the chart there and runs them. By hand, with the feature `installed`:
//!
//! ```text
//! KUBECONFIG            the cluster
//! FAMULUS_TEST_KUBECTL  the program [kubectl]
//! FAMULUS_TEST_HELM     the program [helm]
//! FAMULUS_TEST_RELEASE  the release and its namespace [famulus]
//! FAMULUS_TEST_NODE     the folder of the cluster, where it is a node of `cargo xtask cluster`
//! FAMULUS_TEST_XTASK    the program that switches its parts off and on
//! ```
//!
//! Each target of `tests` says what it needs, and `xtask/cluster/src/cluster/suite/homes.rs` knows it: `cluster` and
//! `upgrade` run on any cluster, `open` on one that ignores policies, the others on a node of `cargo xtask
//! cluster`. What they share is here.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "the environment says which cluster it is, and a test's tasks end with it"
)]

pub mod audit;
pub mod beside;
pub mod figures;
pub mod forward;
pub mod helm;
pub mod host;
pub mod internet;
pub mod kubectl;
pub mod managed;
mod reads;
pub mod release;
pub mod server;
mod volumes;
