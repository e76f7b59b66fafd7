//! The built-in tools, one file each, and the list of them.

use crate::plugins::PluginPorts;
use crate::tool::Tool;
use famulus_core::Clock;
use famulus_core::knowledge::KnowledgeStore;
use famulus_core::post::{Post, Way};
use famulus_core::schedule::ScheduleStore;
use famulus_core::speech::Speaker;
use std::sync::Arc;

/// What the built-in tools reach the world through.
#[derive(Clone)]
pub struct Ports {
    pub clock: Arc<dyn Clock>,
    pub knowledge: Arc<dyn KnowledgeStore>,
    pub schedules: Arc<dyn ScheduleStore>,
    pub post: Arc<dyn Post>,
    /// The channels on which people are reached.
    pub ways: Vec<Way>,
    /// Who says words aloud, where somebody does.
    pub speaker: Option<Arc<dyn Speaker>>,
    pub plugins: PluginPorts,
}

macro_rules! builtin {
    ($($file:ident::$tool:ident),+ $(,)?) => {
        $(mod $file;)+

        /// Every built-in tool, in the order in which models see them.
        pub(crate) fn all(ports: &Ports) -> Vec<Arc<dyn Tool>> {
            vec![$(Arc::new($file::$tool::new(ports))),+]
        }
    };
}

// The list: a new tool is a new file in `builtin/` and a new line here.
builtin! {
    get_time::GetTime,
    manage_knowledge::ManageKnowledge,
    manage_schedules::ManageSchedules,
    send_message::SendMessage,
    text_to_speech::TextToSpeech,
    manage_plugins::ManagePlugins,
    run_plugin_tool::RunPluginTool,
}

// What the document of the architecture shows is a tool that works: this one, which no model sees.
#[cfg(test)]
#[expect(dead_code, reason = "the list, in which it is not, would call `new`")]
mod count_days;

#[cfg(test)]
mod tests {
    #[test]
    fn the_tool_of_the_document_is_one() {
        let file = include_str!("count_days.rs");
        let given = "Bench::with(vec![std::sync::Arc::new(super::CountDays)])";
        let shown = file.replace(given, "Bench::new()");
        assert_ne!(shown, file);
        let document = include_str!("../../../../docs/ARCHITECTURE.md");
        assert!(document.contains(&format!("```rust\n{shown}```\n")), "show this:\n{shown}");
    }
}
