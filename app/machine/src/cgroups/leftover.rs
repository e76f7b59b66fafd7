//! Control groups of sandboxes whose launcher was killed: what is in them ends, and they are removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

/// How long killed processes are waited for.
const KILLED: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Ends all groups of this folder whose names begin so.
pub(super) async fn clear(above: &Path, mark: &str) -> io::Result<()> {
    for group in groups(above, mark)? {
        end(&group).await?;
    }
    Ok(())
}

fn groups(above: &Path, mark: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(above)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(mark)) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

async fn end(group: &Path) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        kill(group)?;
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && begun.elapsed() < KILLED =>
            {
                sleep(LOOK_AGAIN).await;
            }
            removed => return removed,
        }
    }
}

/// Kills all that is in it: at once, where the kernel has a word for that.
fn kill(group: &Path) -> io::Result<()> {
    let at_once = group.join("cgroup.kill");
    if at_once.is_file() {
        return fs::write(at_once, "1");
    }
    let processes = match fs::read_to_string(group.join("cgroup.procs")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    for process in processes.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw)
    {
        match kill_process(process, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn what_is_left_is_removed_and_nobody_elses() {
        let above = tempfile::tempdir().unwrap();
        for name in ["famulus-1-a-serve", "famulus-1-b-build", "famulus-12-a-serve", "other"] {
            fs::create_dir(above.path().join(name)).unwrap();
        }
        clear(above.path(), "famulus-1-").await.unwrap();
        let mut left: Vec<_> =
            fs::read_dir(above.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["famulus-12-a-serve", "other"]);
    }

    #[test]
    fn who_is_in_a_group_is_killed() {
        let group = tempfile::tempdir().unwrap();
        let mut sleeps = Command::new("sleep").arg("600").spawn().unwrap();
        fs::write(group.path().join("cgroup.procs"), format!("{}\n", sleeps.id())).unwrap();
        kill(group.path()).unwrap();
        assert_eq!(sleeps.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
        // Where the kernel has a word, it is asked, and nobody is looked for.
        fs::write(group.path().join("cgroup.kill"), "").unwrap();
        fs::write(group.path().join("cgroup.procs"), "no process\n").unwrap();
        kill(group.path()).unwrap();
        assert_eq!(fs::read_to_string(group.path().join("cgroup.kill")).unwrap(), "1");
    }
}
