//! What a cluster has and what it lacks: chosen when it is brought up, and kept with it.

use std::fs;

use anyhow::Result;
use clap::Args as Arguments;

use super::internet::Internet;
use super::network::Network;
use super::node::Nodes;
use super::pins::{self, Module};
use super::place::Place;
use super::storage::Storage;

/// Says what a cluster is, and by being there that it was brought up.
const FILE: &str = "variant";

#[derive(Arguments, Clone, Copy)]
pub(super) struct Variant {
    /// What runs Pods
    #[arg(long, value_enum, default_value_t = Nodes::One)]
    pub(super) nodes: Nodes,
    /// What connects the Pods
    #[arg(long, value_enum, default_value_t = Network::Cilium)]
    pub(super) network: Network,
    /// What makes volumes for claims
    #[arg(long, value_enum, default_value_t = Storage::Standard)]
    pub(super) storage: Storage,
    /// What plays the internet
    #[arg(long, value_enum, default_value_t = Internet::Beside)]
    pub(super) internet: Internet,
}

impl Variant {
    /// Policies are enforced, volumes are made, and there is an internet.
    pub(super) const WHOLE: Self = Self {
        nodes: Nodes::One,
        network: Network::Cilium,
        storage: Storage::Standard,
        internet: Internet::Beside,
    };

    /// A node, and no more than Pods need to run.
    pub(super) const PLAIN: Self = Self {
        nodes: Nodes::One,
        network: Network::None,
        storage: Storage::None,
        internet: Internet::None,
    };

    /// Objects are kept, and nobody acts on them.
    pub(super) const API_SERVER: Self = Self { nodes: Nodes::None, ..Self::PLAIN };

    /// In words, without blanks at the ends: two variants are the same if their words are.
    pub(super) fn told(self) -> String {
        let Self { nodes, network, storage, internet } = self;
        let (network, storage, internet) = (network.name(), storage.name(), internet.name());
        match nodes {
            Nodes::One => format!("network {network}, storage {storage}, internet {internet}"),
            Nodes::None => "an API server and nothing else".to_owned(),
        }
    }

    /// What a cluster of this variant is made of.
    pub(super) fn modules(self) -> Vec<&'static Module> {
        // As in `pins::ALL`: what takes longest comes first.
        let mut modules = vec![&pins::KUBERNETES];
        modules.extend(self.network.modules());
        modules.extend([&pins::GVISOR, &pins::RUNC, &pins::CNI]);
        modules.extend([&pins::ETCD, &pins::CONTAINERD, &pins::COREDNS]);
        modules
    }

    pub(super) fn keep(self, place: &Place) -> Result<()> {
        place.write(FILE, self.told()).map(drop)
    }
}

/// The words of a cluster that was brought up.
pub(super) fn kept(place: &Place) -> Option<String> {
    fs::read_to_string(place.at(FILE)).ok()
}
