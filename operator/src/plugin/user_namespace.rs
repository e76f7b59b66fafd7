//! Whether a plugin's Pods get a user namespace.
//!
//! No node says beforehand whether a Pod of some shape starts in one: gVisor does not, some runtimes
//! do not, some file systems of volumes do not. So it is tried, and what happened decides for this
//! shape of Pods from then on. It is never lowered silently: a condition and an event say so.

use super::record::{Record, Shape};
use crate::settings::{Pods, UserNamespaces};

/// Whether Pods ask for a user namespace, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserNamespace {
    /// The Pod has one or does not start.
    Required,
    /// It was not tried, or it works.
    Preferred,
    /// The installation wants none.
    Off,
    /// The class has a kernel of its own, and does not start in one.
    OwnKernel,
    /// It was tried, and the Pod did not start.
    FellBack,
}

impl UserNamespace {
    pub fn is_asked(self) -> bool {
        match self {
            Self::Required | Self::Preferred => true,
            Self::Off | Self::OwnKernel | Self::FellBack => false,
        }
    }
}

pub fn decide(pods: &Pods, shape: &Shape, record: &Record) -> UserNamespace {
    let own_kernel =
        shape.class.as_ref().is_some_and(|class| pods.own_kernel_classes.contains(class));
    match pods.user_namespaces {
        UserNamespaces::Off => UserNamespace::Off,
        _ if own_kernel => UserNamespace::OwnKernel,
        UserNamespaces::Required => UserNamespace::Required,
        UserNamespaces::Preferred if record.fallen_back.as_ref() == Some(shape) => {
            UserNamespace::FellBack
        }
        UserNamespaces::Preferred => UserNamespace::Preferred,
    }
}
