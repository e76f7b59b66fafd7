//! Puts questions into the chats of those who are asked, and says there what became of them.

use famulus_agent::Channels;
use famulus_core::approval::ApprovalState;
use famulus_core::outbound::Button;
use famulus_core::visible::shortened;
use famulus_errors::chain;
use famulus_queue::hint::Topic;
use famulus_store::{Closed, Error, Store, Unasked};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Done in one go.
const AT_ONCE: i64 = 50;
/// Questions open and close by a hint; one that was lost costs no more than this.
const LOOK: Duration = Duration::from_secs(10);
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// Characters of the arguments that a question shows; all of them are shown by the program.
const SHOWN: usize = 1_500;

/// Asks and closes for as long as the process runs.
pub(crate) async fn ask(store: Store, channels: Channels, shutdown: CancellationToken) {
    let heard = channels.iter().filter(|(_, channel)| channel.listener().is_some());
    let names: Vec<String> = heard.map(|(name, _)| name.clone()).collect();
    if names.is_empty() {
        return shutdown.cancelled().await;
    }
    let mut hint = store.hints.subscribe(Topic::Control);
    while !shutdown.is_cancelled() {
        hint.mark_unchanged();
        if let Err(error) = once(&store, &names).await {
            tracing::warn!(error = %chain(&error), "questions were not put into chats");
            sleep(AFTER_FAILURE).await;
            continue;
        }
        let _news_or_time = shutdown.run_until_cancelled(timeout(LOOK, hint.changed())).await;
    }
}

async fn once(store: &Store, channels: &[String]) -> Result<(), Error> {
    for unasked in store.unasked_questions(channels, AT_ONCE).await? {
        store.ask_in_chat(&unasked, &question(&unasked), &buttons(&unasked.code)).await?;
    }
    for closed in store.closed_questions(AT_ONCE).await? {
        store.close_in_chat(&closed, &answer(&closed)).await?;
    }
    Ok(())
}

fn buttons(code: &str) -> [Button; 2] {
    [
        Button { text: "Approve".to_owned(), data: format!("/approve {code}") },
        Button { text: "Deny".to_owned(), data: format!("/deny {code}") },
    ]
}

/// What whoever is asked reads. A press may be lost, and not every channel has buttons, so the words stand
/// there in any case.
fn question(unasked: &Unasked) -> String {
    let Unasked { person, code, summary, shown, .. } = unasked;
    let person = person.as_ref().map_or_else(String::new, |name| format!(", for {},", plain(name)));
    let arguments = shortened(shown, SHOWN);
    let fence = fence_for(&arguments);
    format!(
        "May I{person} {}?\n\n{fence}\n{arguments}\n{fence}\n\nAnswer with `/approve {code}` or \
         `/deny {code}`.",
        plain(summary)
    )
}

/// What stands there afterwards.
fn answer(closed: &Closed) -> String {
    let Closed { person, summary, state, by, via, .. } = closed;
    let person = person.as_ref().map_or_else(String::new, |name| format!(", for {}", plain(name)));
    let by = by.as_ref().map_or_else(String::new, |name| format!(" by {}", plain(name)));
    let via = via.as_ref().map_or_else(String::new, |via| format!(" ({})", plain(via)));
    let said = match state {
        ApprovalState::Approved | ApprovalState::Consumed => format!("Approved{by}{via}"),
        ApprovalState::Denied => format!("Denied{by}{via}"),
        ApprovalState::Expired => "Nobody answered in time".to_owned(),
        ApprovalState::Superseded => "Withdrawn".to_owned(),
        ApprovalState::Pending => "Still open".to_owned(),
    };
    format!("**{said}**: {}{person}.", plain(summary))
}

/// Of what others wrote nothing is a style.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_punctuation() {
            plain.push('\\');
        }
        plain.push(if character.is_control() { ' ' } else { character });
    }
    plain
}

/// A fence that the text cannot close.
fn fence_for(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat((longest + 1).max(3))
}
