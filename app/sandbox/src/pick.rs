//! Who takes the next call of a plugin.

use std::sync::Arc;

use crate::home::{Home, KnownRunner};

pub(crate) enum Pick<R> {
    Runner(Arc<R>),
    /// These are up, and none of them answered lately.
    Silent(Vec<Arc<R>>),
    /// These are about to be there.
    Nobody(Vec<Arc<R>>),
}

/// The one with the fewest calls, of those that reach no more than the plugin may now.
pub(crate) fn pick<H: Home>(home: &H, plugin: &H::Plugin) -> Pick<H::Runner> {
    let mut runners = home.runners(plugin);
    runners.retain(|runner| home.lets(plugin, runner));
    runners.sort_by_key(|runner| runner.conduct().calls());
    let (up, others): (Vec<_>, Vec<_>) =
        runners.into_iter().partition(|runner| runner.takes_calls());
    if let Some(runner) = up.iter().find(|runner| runner.conduct().admits()) {
        return Pick::Runner(Arc::clone(runner));
    }
    if up.is_empty() {
        return Pick::Nobody(others.into_iter().filter(|one| one.is_starting()).collect());
    }
    Pick::Silent(up)
}
