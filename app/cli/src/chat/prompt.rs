//! The prompt of a terminal: editing, history in a file that only its owner reads, completion of
//! commands.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::future::Future;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use reedline::{
    ColumnarMenu, Completer, CompletionResult, EditCommand, Emacs, FileBackedHistory, KeyCode,
    KeyModifiers, MenuBuilder as _, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent,
    ReedlineMenu, Signal, SimpleMatchHighlighter, Span, Suggestion, default_emacs_keybindings,
};

use crate::chat::past::Past;
use crate::chat::slash;
use crate::error::Error;
use crate::paint::Colour;

/// Messages that the history keeps.
const HISTORY: usize = 2000;
const MENU: &str = "commands";

/// Where lines come from. A terminal, or a script in tests.
pub(crate) trait Prompt {
    /// The next line, or `None` when its writer wants to leave.
    fn read(&mut self) -> impl Future<Output = Result<Option<String>, Error>> + Send;
}

/// A terminal.
pub(crate) struct Terminal {
    /// Absent only while a line is read, on a thread that may block.
    editor: Option<Reedline>,
}

impl Terminal {
    /// `history` is a file; without one, or where it cannot be kept, the history lasts as long
    /// as the prompt.
    pub(crate) fn open(history: &Path, colour: Colour) -> (Self, Option<io::Error>) {
        let mut keys = default_emacs_keybindings();
        keys.add_binding(
            KeyModifiers::NONE,
            KeyCode::Tab,
            ReedlineEvent::UntilFound(vec![
                ReedlineEvent::Menu(MENU.to_owned()),
                ReedlineEvent::MenuNext,
            ]),
        );
        keys.add_binding(
            KeyModifiers::ALT,
            KeyCode::Enter,
            ReedlineEvent::Edit(vec![EditCommand::InsertNewline]),
        );
        let menu = ColumnarMenu::default().with_name(MENU);
        let mut editor = Reedline::create()
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_completer(Box::new(Commands))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_highlighter(Box::new(SimpleMatchHighlighter::default()))
            .with_history_exclusion_prefix(Some(" ".to_owned()))
            .with_ansi_colors(colour == Colour::On)
            .use_bracketed_paste(true);
        let problem = match keep(history) {
            Ok(kept) => {
                editor = editor.with_history(Box::new(Past(kept)));
                None
            }
            Err(error) => Some(error),
        };
        (Self { editor: Some(editor) }, problem)
    }
}

impl Prompt for Terminal {
    async fn read(&mut self) -> Result<Option<String>, Error> {
        let Some(mut editor) = self.editor.take() else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || {
            let signal = editor.read_line(&EmptyPrompt);
            // Kept at once: a terminal that is closed takes nothing with it.
            let _kept_in_memory = editor.sync_history();
            (editor, signal)
        });
        let failed = |source| Error::Prompt { source };
        let (editor, signal) = read.await.map_err(|error| failed(error.into()))?;
        self.editor = Some(editor);
        match signal.map_err(|error| failed(io::Error::other(error)))? {
            Signal::Success(line) => Ok(Some(line)),
            // Ctrl-C, Ctrl-D, and whatever else may end a prompt.
            Signal::CtrlC
            | Signal::CtrlD
            | Signal::HostCommand(_)
            | Signal::ExternalBreak(_)
            | _ => Ok(None),
        }
    }
}

/// Opens the history so that nobody else can read it, whoever made the file and how.
fn keep(path: &Path) -> io::Result<FileBackedHistory> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    FileBackedHistory::with_file(HISTORY, path.to_owned()).map_err(io::Error::other)
}

struct EmptyPrompt;

impl reedline::Prompt for EmptyPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("› ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("search {}: ", search.term))
    }
}

struct Commands;

impl Completer for Commands {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line
            .get(..position)
            .filter(|typed| typed.starts_with('/') && !typed.contains(char::is_whitespace));
        let suggestions: Vec<Suggestion> = typed
            .map(slash::completions)
            .into_iter()
            .flatten()
            .map(|word| Suggestion {
                value: word.to_owned(),
                span: Span { start: 0, end: position },
                append_whitespace: true,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_readable_to_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/folder/history");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        keep(&path).unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        keep(&path).unwrap();
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn a_history_that_cannot_be_kept_stops_nobody() {
        let (_, problem) = Terminal::open(Path::new("/dev/null/history"), Colour::Off);
        assert!(problem.is_some());
    }

    #[test]
    fn commands_are_completed_and_messages_are_not() {
        let values = |line: &str| -> Vec<String> {
            let result = Commands.complete(line, line.len());
            result.suggestions().iter().map(|s| s.value.clone()).collect()
        };
        assert_eq!(values("/ap"), ["/approve", "/approvals"]);
        assert!(values("/approve a").is_empty());
        assert!(values("hello").is_empty());
    }
}
