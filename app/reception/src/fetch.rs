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
        for file in parts.iter().flat_map(|part| &part.files) {
            let RemoteFile { name, media_type, size, .. } = file;
            let too_large = || {
                let most = door.file_bytes / (1024 * 1024);
                words::unfetched(name, &format!("it is larger than {most} MiB"))
            };
            if size.is_some_and(|size| size > door.file_bytes) {
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
            let file = File::New {
                name: name.clone(),
                media_type: media_type.clone(),
                most: door.file_bytes,
                pieces,
            };
            match self.reception.attachment(caller.person.id, file).await {
                Ok(attachment) => attachments.push(attachment),
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
