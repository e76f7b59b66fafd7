//! Tests of a whole installation on a real cluster, from outside: by kubectl, helm and HTTP.
//!
//! They need an installed release, and say so when there is none: `cargo xtask test` makes a cluster,
//! installs the chart there and runs them. By hand:
//!
//! ```text
//! KUBECONFIG            the cluster
//! FAMULUS_TEST_KUBECTL  the program [kubectl]
//! FAMULUS_TEST_RELEASE  the release and its namespace [famulus]
//! FAMULUS_TEST_GIT      a folder whose bare repositories Pods find below FAMULUS_TEST_GIT_URL
//! ```
//!
//! The tests are in `tests/cluster`; nothing is here.
