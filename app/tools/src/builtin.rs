//! The built-in tools, one file each, and the list of them.

use crate::plugins::PluginPorts;
use crate::tool::Tool;
use famulus_core::Clock;
use famulus_core::knowledge::KnowledgeStore;
use famulus_core::schedule::ScheduleStore;
use std::sync::Arc;

/// What the built-in tools reach the world through.
#[derive(Clone)]
pub struct Ports {
    pub clock: Arc<dyn Clock>,
    pub knowledge: Arc<dyn KnowledgeStore>,
    pub schedules: Arc<dyn ScheduleStore>,
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
    manage_plugins::ManagePlugins,
    run_plugin_tool::RunPluginTool,
}
