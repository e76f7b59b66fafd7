//! Leaving namespaces for new ones.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// This process gets new ones of these kinds; its table of descriptors stays as it is.
#[expect(
    unsafe_code,
    reason = "the wrapper covers the flag that would part descriptors of threads"
)]
pub fn leave(kinds: UnshareFlags) -> io::Result<()> {
    // SAFETY: without that flag every descriptor means the same to all threads.
    Ok(unsafe { unshare_unsafe(kinds.difference(UnshareFlags::FILES)) }?)
}
