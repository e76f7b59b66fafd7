//! The files of what people write: fetched from the platform, and kept.

use crate::{Arrivals, ArriveError, Door, File, ReceiveError, words};
use famulus_core::{
    blob::BlobError,
    inbound::Attachment,
    intake::{FetchError, Listener, RemoteFile, Written},
    person::Caller,
};

impl Arrivals {
    /// The files of all parts, and words for those that there are not.
    pub(crate) async fn fetched(
        &self,
        door: &Door,
        caller: &Caller,
        parts: &[Written],
        platform: &dyn Listener,
    ) -> Result<(Vec<Attachment>, Vec<String>), ArriveError> {
        let (mut attachments, mut missing) = (Vec::new(), Vec::new());
        let mut day: Option<u64> = None;
        for file in parts.iter().flat_map(|part| &part.files) {
            let RemoteFile { name, media_type, size, .. } = file;
            let kept = match day {
                Some(kept) => kept,
                None => self.identities.kept_within_a_day(caller.person.id).await?,
            };
            let left = door.day_bytes.saturating_sub(kept);
            let most = door.file_bytes.min(left);
            let too_large = || {
                let reason = if most == door.file_bytes {
                    words::too_large(door.file_bytes)
                } else {
                    words::too_much(door.day_bytes)
                };
                words::unfetched(name, &reason)
            };
            day = Some(kept);
            if size.is_some_and(|size| size > most) {
                missing.push(too_large());
                continue;
            }
            let pieces = match platform.fetch(file).await {
                Ok(pieces) => pieces,
                Err(error @ FetchError::Passing { .. }) if door.waits_for_files => {
                    return Err(ArriveError::Fetch(error));
                }
                Err(FetchError::Lasting { reason } | FetchError::Passing { reason }) => {
                    missing.push(words::unfetched(name, &reason));
                    continue;
                }
            };
            let file =
                File::New { name: name.clone(), media_type: media_type.clone(), most, pieces };
            match self.reception.attachment(caller.person.id, file).await {
                Ok(attachment) => {
                    day = Some(kept + attachment.blob.size);
                    attachments.push(attachment);
                }
                // The platform had told another size, or none.
                Err(ReceiveError::File { source: BlobError::TooLarge { .. }, .. }) => {
                    missing.push(too_large());
                }
                Err(ReceiveError::File { source: BlobError::Cut(_), .. })
                    if !door.waits_for_files =>
                {
                    missing.push(words::unfetched(name, "it always breaks off"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok((attachments, missing))
    }
}
