//! Descriptors end here: none but the three standard ones reaches what is executed next.

use std::io;

/// The first descriptor that is not one of the three standard ones.
const FIRST: libc::c_uint = 3;

/// Marks every open descriptor but the standard ones to be closed when another program is executed,
/// also those that were inherited without the mark.
#[expect(unsafe_code, reason = "close_range has no safe wrapper")]
pub fn close_on_exec() -> io::Result<()> {
    // SAFETY: it takes no pointer and with this flag closes nothing now, so that every descriptor
    // of this process stays valid.
    let done = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
