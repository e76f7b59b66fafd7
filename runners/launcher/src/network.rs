//! The process outside that serves the network of a sandbox: it has the sandbox's user, no right and no file.

use std::fs;
use std::future::pending;
use std::io;

use famulus_network::{Resolvers, Rules, serve as serve_interface};
use famulus_protocol::launch::{Launch, LaunchLimits, LaunchNetwork};
use famulus_runner_harness::namespaces::leave;
use rustix::process::{Resource, Rlimit, setrlimit, setsid};
use rustix::thread::UnshareFlags;

use crate::error::LaunchError;
use crate::inside::end_with_the_launcher;
use crate::{groups, interface, privileges, root};

/// Bytes that it may have, of which it uses little: whoever sends too much ends his own network.
const MEMORY: u64 = 512 << 20;

/// Serves until the launcher ends. Standard output is a socket to the process inside.
pub(crate) fn serve(order: &Launch, limits: &LaunchLimits) -> Result<(), LaunchError> {
    end_with_the_launcher()?;
    // What it does is done for the sandbox.
    groups::enter(limits)?;
    let LaunchNetwork::Internet { also } = &order.network else {
        return Err(LaunchError::Wrong("it wants no network that is served".to_owned()));
    };
    let socket = io::stdout();
    let served = confine(order).and_then(|resolvers| {
        let taken = interface::take(&socket).map_err(LaunchError::Network)?;
        Ok((resolvers, taken))
    });
    let told = interface::tell(&socket, served.as_ref().map(drop));
    let (resolvers, Some(taken)) = served? else { return Ok(()) };
    told.map_err(LaunchError::Network)?;
    let rules = Rules::new(also.iter().copied());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(LaunchError::Network)?;
    let ended = runtime.block_on(serve_interface(taken, &rules, &resolvers, pending()));
    ended.map_err(LaunchError::Network)
}

/// Gives up what is not needed to speak to the internet.
fn confine(order: &Launch) -> Result<Resolvers, LaunchError> {
    setsid().map_err(LaunchError::privileges("a session of its own"))?;
    let resolvers = Resolvers::of_the_machine().map_err(LaunchError::Network)?;
    let kinds = UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    leave(kinds).map_err(LaunchError::Namespaces)?;
    root::nothing(&order.root)?;
    for (what, most) in [(Resource::As, MEMORY), (Resource::Core, 0)] {
        setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) })
            .map_err(LaunchError::privileges("a limit of its own"))?;
    }
    privileges::give_up(order.user)?;
    // The kernel forgets it when somebody becomes another.
    end_with_the_launcher()?;
    let mut found = fs::read_dir("/").map_err(LaunchError::root("its empty root"))?;
    match found.next() {
        None => Ok(resolvers),
        Some(_) => Err(LaunchError::NotAsWanted("files are seen by who serves its network".into())),
    }
}
