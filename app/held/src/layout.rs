//! What each channel's daemon keeps, and where.

/// The daemons there are. A new one is a line here.
pub const LAYOUTS: [Layout; 1] = [
    // Accounts, with their keys and contacts; not what was fetched for messages.
    Layout { channel: "signal", folder: "signal-cli/data" },
];

/// What a daemon keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The channel's name in addresses.
    pub channel: &'static str,
    /// Below the daemon's own folder. A folder in it is an account.
    pub folder: &'static str,
}

impl Layout {
    /// Of a channel, if its daemon keeps something.
    pub fn of(channel: &str) -> Option<Self> {
        LAYOUTS.into_iter().find(|layout| layout.channel == channel)
    }
}
