//! Work that stands back: whoever waits for an answer goes first.
//!
//! A dump, its compression and its encryption want a core each for minutes. They get what is left over; on a
//! machine that has nothing else to do that is everything.

use rustix::process::{Pid, getpriority_process, setpriority_process};

/// Beside somebody who wants a core too, about a tenth of it.
const NICE: i32 = 10;

/// Has a process stand back. One that cannot does its work all the same.
pub(crate) fn stand_back(process: Option<u32>) {
    let pid = process.and_then(|id| Pid::from_raw(id.try_into().ok()?));
    if let Err(error) = pid.map_or(Ok(()), |pid| setpriority_process(Some(pid), NICE)) {
        tracing::debug!(%error, "a program of a backup does not stand back");
    }
}

/// Does something on a thread that stands back meanwhile.
pub(crate) fn behind<T>(work: impl FnOnce() -> T) -> T {
    // To Linux this is the thread that asks.
    let before = getpriority_process(None).and_then(|before| {
        setpriority_process(None, NICE.max(before))?;
        Ok(before)
    });
    let done = work();
    if let Ok(before) = before {
        // Who may not go forward again is a thread that ends when it is idle.
        let _stays_behind = setpriority_process(None, before);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_back_for_its_work_and_a_process_for_good() {
        let before = getpriority_process(None).unwrap();
        let meanwhile = behind(|| getpriority_process(None).unwrap());
        assert!(meanwhile >= NICE, "{meanwhile}");
        let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        stand_back(Some(process.id()));
        let pid = Pid::from_raw(process.id().try_into().unwrap());
        let theirs = getpriority_process(pid);
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(theirs.unwrap(), NICE);
        assert!(getpriority_process(None).unwrap() >= before);
    }
}
