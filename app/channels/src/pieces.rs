//! What a message becomes on a platform that takes texts of a limited length, and files one by one.

use crate::styled::{Styled, read, split};
use famulus_core::{
    inbound::Attachment,
    outbound::{Limit, Outbound},
};

/// One message of a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(Styled),
    File(&'a Attachment, Option<Styled>),
}

/// Cuts a message; the same one always in the same way. A single file has the text with it where that fits.
pub(crate) fn pieces(message: &Outbound, text: Limit, caption: Limit) -> Vec<Piece<'_>> {
    let styled = read(&message.markdown);
    let shown = styled.text();
    if let [file] = message.attachments.as_slice()
        && caption.fits(&shown) == shown.len()
    {
        return vec![Piece::File(file, Some(styled))];
    }
    let texts = split(&styled, text).into_iter().map(Piece::Text);
    let files = message.attachments.iter().map(|file| Piece::File(file, None));
    texts.chain(files).collect()
}
