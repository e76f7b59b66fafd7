//! The built-in tools, one file each, and the list of them.

mod get_time;
mod manage_knowledge;
mod manage_schedules;

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
}

/// Every built-in tool, in the order in which models see them. A new tool is a new line here.
pub(crate) fn all(ports: &Ports) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(get_time::GetTime::new(ports)),
        Arc::new(manage_knowledge::ManageKnowledge::new(ports)),
        Arc::new(manage_schedules::ManageSchedules::new(ports)),
    ]
}
