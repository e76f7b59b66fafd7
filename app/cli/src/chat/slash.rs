//! What a typed line means: a message, or one of the commands of the prompt.

use famulus_core::configure::{Hidden, WORD};

use crate::table::pairs;

/// One line as it was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    Nothing,
    Message(String),
    Command(Slash),
    /// Looks like a command, and is none; says why and what to do.
    Mistake(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slash {
    Help,
    New {
        title: Option<String>,
    },
    Conversations,
    /// A number of the last list, an id, or `main`.
    Switch {
        to: String,
    },
    History {
        count: u32,
    },
    Title {
        title: String,
    },
    Stop,
    Approve {
        code: String,
    },
    Deny {
        code: String,
    },
    Approvals,
    Schedules,
    Memory,
    Usage,
    Continue,
    Reasoning,
    Status,
    /// As it was typed: the server reads it.
    Configure(Hidden),
    Quit,
}

/// Messages that `/history` shows without a number.
pub(crate) const HISTORY: u32 = 20;

/// A row of the list of commands: how it is written, what it does, and how it is read.
struct Row {
    usage: &'static str,
    help: &'static str,
    read: fn(&str) -> Option<Slash>,
}

const ROWS: [Row; 18] = [
    Row { usage: "/help", help: "this list", read: |_| Some(Slash::Help) },
    Row {
        usage: "/new [TITLE]",
        help: "begin another conversation",
        read: |rest| Some(Slash::New { title: some(rest) }),
    },
    Row {
        usage: "/conversations",
        help: "list the conversations",
        read: |_| Some(Slash::Conversations),
    },
    Row {
        usage: "/switch N|ID",
        help: "go on in another conversation; `main` is the first",
        read: |rest| some(rest).map(|to| Slash::Switch { to }),
    },
    Row {
        usage: "/history [N]",
        help: "show the latest messages",
        read: |rest| match rest {
            "" => Some(Slash::History { count: HISTORY }),
            number => number.parse().ok().map(|count| Slash::History { count }),
        },
    },
    Row {
        usage: "/title TEXT",
        help: "name this conversation",
        read: |rest| some(rest).map(|title| Slash::Title { title }),
    },
    Row {
        usage: "/stop",
        help: "stop what runs in this conversation",
        read: |_| Some(Slash::Stop),
    },
    Row {
        usage: "/approve CODE",
        help: "allow a call that waits for it",
        read: |rest| some(rest).map(|code| Slash::Approve { code }),
    },
    Row {
        usage: "/deny CODE",
        help: "refuse it",
        read: |rest| some(rest).map(|code| Slash::Deny { code }),
    },
    Row {
        usage: "/configure PLUGIN KEY VALUE",
        help: "give a key of a plugin its value; the history does not keep it",
        read: |rest| Some(Slash::Configure(Hidden::new(format!("{WORD} {rest}")))),
    },
    Row { usage: "/approvals", help: "list what waits", read: |_| Some(Slash::Approvals) },
    Row { usage: "/schedules", help: "list the schedules", read: |_| Some(Slash::Schedules) },
    Row {
        usage: "/memory",
        help: "show what the assistant remembers",
        read: |_| Some(Slash::Memory),
    },
    Row { usage: "/usage", help: "tokens used", read: |_| Some(Slash::Usage) },
    Row {
        usage: "/continue",
        help: "go on where a limit ended the last turn",
        read: |_| Some(Slash::Continue),
    },
    Row {
        usage: "/reasoning",
        help: "show or hide the model's reasoning",
        read: |_| Some(Slash::Reasoning),
    },
    Row { usage: "/status", help: "state of the server", read: |_| Some(Slash::Status) },
    Row { usage: "/quit", help: "leave; so does Ctrl-D", read: |_| Some(Slash::Quit) },
];

/// Reads a line. A message that has to begin with a slash is written with two.
pub(crate) fn read(line: &str) -> Typed {
    let line = line.trim();
    if line.is_empty() {
        return Typed::Nothing;
    }
    let Some(rest) = line.strip_prefix('/') else { return Typed::Message(line.to_owned()) };
    if rest.starts_with('/') {
        return Typed::Message(rest.to_owned());
    }
    let (word, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let is_command = word.len() > 1 && word[1..].bytes().all(|b| b.is_ascii_alphabetic());
    if !is_command {
        // A path, or a fraction.
        return Typed::Message(line.to_owned());
    }
    let word = word.to_ascii_lowercase();
    match ROWS.iter().find(|row| row.word() == word) {
        Some(row) => match (row.read)(argument.trim()) {
            Some(command) => Typed::Command(command),
            None => Typed::Mistake(format!("write {}", row.usage)),
        },
        None => Typed::Mistake(unknown(&word)),
    }
}

/// The list of commands.
pub(crate) fn help() -> String {
    let rows: Vec<(&str, String)> =
        ROWS.iter().map(|row| (row.usage, row.help.to_owned())).collect();
    pairs(&rows)
}

/// The words that begin with what was typed so far.
pub(crate) fn completions(typed: &str) -> impl Iterator<Item = &'static str> {
    let typed = typed.to_ascii_lowercase();
    ROWS.iter().map(Row::word).filter(move |word| word.starts_with(&typed))
}

impl Row {
    fn word(&self) -> &'static str {
        self.usage.split(' ').next().unwrap_or(self.usage)
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn unknown(word: &str) -> String {
    let nearest = ROWS
        .iter()
        .map(Row::word)
        .map(|known| (distance(word, known), known))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    let begins = || completions(word).next();
    match nearest.map(|(_, known)| known).or_else(begins) {
        Some(known) => format!("there is no {word}; did you mean {known}?"),
        None => format!(
            "there is no {word}; /help lists the commands, and a message that begins with a slash is written with two"
        ),
    }
}

/// Letters to change, add or drop to make the one word the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cheapest = (row[j] + 1).min(row[j + 1] + 1).min(diagonal + usize::from(x != *y));
            diagonal = std::mem::replace(&mut row[j + 1], cheapest);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_or_a_command() {
        let check = |line: &str, expected: Typed| assert_eq!(read(line), expected, "{line}");
        check("  ", Typed::Nothing);
        check(" hello /help ", Typed::Message("hello /help".into()));
        check("//help", Typed::Message("/help".into()));
        check("/etc/hosts holds what?", Typed::Message("/etc/hosts holds what?".into()));
        check("/", Typed::Message("/".into()));
        check("/help", Typed::Command(Slash::Help));
        check("/HELP me", Typed::Command(Slash::Help));
        check("/new", Typed::Command(Slash::New { title: None }));
        check("/new  A trip ", Typed::Command(Slash::New { title: Some("A trip".into()) }));
        check("/switch 2", Typed::Command(Slash::Switch { to: "2".into() }));
        check("/history", Typed::Command(Slash::History { count: HISTORY }));
        check("/history 5", Typed::Command(Slash::History { count: 5 }));
        check("/approve ABCD2345", Typed::Command(Slash::Approve { code: "ABCD2345".into() }));
        let typed = Hidden::new("/configure dice key 1 2");
        check("/Configure dice key 1 2 ", Typed::Command(Slash::Configure(typed)));
        check("/switch", Typed::Mistake("write /switch N|ID".into()));
        check("/history many", Typed::Mistake("write /history [N]".into()));
        check("/aprove X", Typed::Mistake("there is no /aprove; did you mean /approve?".into()));
        check("/conv", Typed::Mistake("there is no /conv; did you mean /conversations?".into()));
        assert!(matches!(read("/frobnicate"), Typed::Mistake(text) if text.contains("/help")));
    }

    #[test]
    fn every_command_is_listed_and_completed() {
        assert_eq!(help().lines().count(), ROWS.len());
        assert_eq!(completions("/ap").collect::<Vec<_>>(), ["/approve", "/approvals"]);
        for row in &ROWS {
            let typed = read(&format!("{} 1", row.word()));
            assert!(matches!(typed, Typed::Command(_)), "{}", row.usage);
        }
    }
}
