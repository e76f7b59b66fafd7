//! Filesystems in files, mounted through loop devices. All of it runs inside the cluster's mounts.

use std::fs::{self, File};
use std::process::Command;

use anyhow::{Context, Result};
use xtask_shell::output_of;

use crate::cluster::namespace::Namespaces;
use crate::cluster::place::Place;

use super::plan::Volume;

/// Where volumes lie, in the work folder: the file `<name>.ext4`, mounted at the folder `<name>`.
pub(super) const VOLUMES: &str = "volumes";

/// Makes the filesystem and mounts it, unless that was done. Returns where it is mounted.
pub(super) fn make(place: &Place, volume: &Volume) -> Result<String> {
    let file = place.at(VOLUMES).join(format!("{}.ext4", volume.name));
    if !file.exists() {
        let unfinished = file.with_extension("unfinished");
        File::create(&unfinished)?.set_len(volume.bytes)?;
        // Nothing is kept back for root: Pods may fill all of it.
        let mut format = Command::new("mkfs.ext4");
        output_of(format.args(["-q", "-F", "-m", "0"]).arg(&unfinished))?;
        fs::rename(&unfinished, &file)?;
    }
    let folder = place.make_folder(&format!("{VOLUMES}/{}", volume.name))?;
    if !is_mounted(place, &volume.name)? {
        output_of(Command::new("mount").args(["-o", "loop"]).arg(&file).arg(&folder))?;
    }
    Ok(folder.to_string_lossy().into_owned())
}

/// Mounts what was made before, for Pods that are about to start again.
pub(in crate::cluster) fn mount_again(place: &Place, namespaces: &Namespaces) -> Result<()> {
    for entry in fs::read_dir(place.make_folder(VOLUMES)?)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "ext4") {
            let (file, folder) = (file.to_string_lossy(), file.with_extension(""));
            namespaces.run(&["mount", "-o", "loop", &file, &folder.to_string_lossy()])?;
        }
    }
    Ok(())
}

/// Removes a filesystem and what is in it, unless that was done.
pub(super) fn remove(place: &Place, name: &str) -> Result<()> {
    let folder = place.at(VOLUMES).join(name);
    if is_mounted(place, name)? {
        output_of(Command::new("umount").arg(&folder))?;
    }
    if folder.exists() {
        fs::remove_dir(&folder)?;
    }
    let file = folder.with_extension("ext4");
    if file.exists() {
        fs::remove_file(&file)?;
    }
    Ok(())
}

fn is_mounted(place: &Place, name: &str) -> Result<bool> {
    let folder = place.text(&format!("{VOLUMES}/{name}"));
    let table = fs::read_to_string("/proc/self/mounts").context("cannot list the mounts")?;
    Ok(table.lines().any(|line| line.split(' ').nth(1) == Some(&folder)))
}

/// The machine's loop devices that lead to a file of the cluster.
pub(in crate::cluster) fn loops(place: &Place) -> Vec<String> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let leads_here = |device: &fs::DirEntry| {
        fs::read_to_string(device.path().join("loop/backing_file"))
            .is_ok_and(|file| std::path::Path::new(file.trim()).starts_with(&place.folder))
    };
    let name = |device: fs::DirEntry| device.file_name().to_string_lossy().into_owned();
    devices.filter(leads_here).map(name).collect()
}
