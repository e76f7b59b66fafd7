//! Images as files: archives of the OCI layout.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use xtask_shell::Shell;

use super::catalogue::Image;
use super::rust::Profile;
use super::storage::Storage;

pub(super) struct Archive {
    image: &'static str,
    file: PathBuf,
    /// Of the image's manifest.
    digest: String,
    bytes: u64,
}

/// Writes the image with the id `id` to `out`, unless it is there already.
pub(super) async fn write(
    shell: &mut Shell,
    storage: &Storage,
    image: &Image,
    id: &str,
    profile: Profile,
    out: &Path,
) -> Result<Archive> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let out = out.canonicalize()?;
    let file = out.join(format!("{}.tar", image.name));
    let (stamp, digests) = (file.with_extension("id"), file.with_extension("digest"));
    let made = format!("{id} {profile:?}");
    let there = fs::read_to_string(&stamp).is_ok_and(|text| text == made);
    if !there || !file.exists() || !digests.exists() {
        for old in [&stamp, &file, &digests] {
            fs::remove_file(old).ok();
        }
        let reference = image.reference();
        let mut command = storage.buildah();
        command.args(["push", "--quiet", "--digestfile"]).arg(&digests);
        if profile == Profile::Dev {
            // A third of the time for a quarter more bytes.
            command.args(["--compression-format=gzip", "--compression-level=1"]);
        }
        command.arg(&reference).arg(format!("oci-archive:{}:{reference}", file.display()));
        shell.run(command).await?;
        fs::write(&stamp, made)?;
    }
    let digest = fs::read_to_string(&digests)?.trim().to_owned();
    let bytes = fs::metadata(&file)?.len();
    Ok(Archive { image: image.name, file, digest, bytes })
}

impl Archive {
    pub(super) fn line(&self, took: Duration) -> String {
        format!(
            "{:12} {:5} MB {:6.1} s  {}  {}",
            self.image,
            self.bytes.div_ceil(1_000_000),
            took.as_secs_f64(),
            self.digest,
            self.file.display()
        )
    }
}

/// Names every image that came out differently.
pub(super) fn compare(first: &[Archive], second: &[Archive]) -> Result<()> {
    let differs = |(one, other): &(&Archive, &Archive)| one.digest != other.digest;
    let names: Vec<&str> =
        first.iter().zip(second).filter(differs).map(|(one, _)| one.image).collect();
    if names.is_empty() {
        return Ok(());
    }
    bail!(
        "two builds differ: {}; the second ones are in the folder `again` beside the first, to be \
         compared layer by layer",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_out_differently_is_named() {
        let archive = |image, digest: &str| Archive {
            image,
            file: PathBuf::new(),
            digest: digest.to_owned(),
            bytes: 0,
        };
        let first = [archive("app", "sha256:a"), archive("postgres", "sha256:b")];
        assert!(compare(&first, &first).is_ok());
        let second = [archive("app", "sha256:a"), archive("postgres", "sha256:c")];
        let error = compare(&first, &second).unwrap_err().to_string();
        assert!(error.starts_with("two builds differ: postgres;"), "{error}");
    }
}
