//! What the owner wants of a plugin becomes what the machine is told of it.

use std::time::Duration;

use famulus_core::plugin::{Description, Egress, PluginFile, PluginRow, PluginSource};
use famulus_machine::PluginRecord;
use famulus_protocol::revision::{BuildFile, BuildSource};
use famulus_sandbox::NotReady;

/// Unused for so long, a runner ends.
const IDLE: Duration = Duration::from_mins(5);

/// `description` is of the revision that serves, `config_keys` are those that have a value.
pub(crate) fn record(
    row: &PluginRow,
    description: Option<&Description>,
    config_keys: Vec<String>,
) -> PluginRecord {
    let serving = row.serving.as_ref();
    let tools = description.map(|it| it.tools.iter().map(|tool| tool.name.clone()).collect());
    PluginRecord {
        uid: row.uid.clone(),
        name: row.name.clone(),
        rendered: row.rendered,
        revision: serving.map(|serving| serving.revision.clone()),
        commit: description.and_then(|description| description.commit.clone()),
        tools: tools.unwrap_or_default(),
        permitted: serving.map(|serving| serving.tools.clone()).unwrap_or_default(),
        config_keys,
        egress: serving.map(|serving| serving.egress).unwrap_or_default(),
        // As in a cluster: packages and what an init script fetches are public.
        init_egress: Egress::Internet,
        suspended: false,
        idle: IDLE,
        trouble: Some(trouble(row)),
    }
}

/// Why nothing serves, where nothing does.
fn trouble(row: &PluginRow) -> NotReady {
    if let Some(trouble) = &row.trouble {
        return NotReady { reason: trouble.reason.clone(), message: trouble.message.clone() };
    }
    let not_ready = |reason: &str, message: String| NotReady { reason: reason.to_owned(), message };
    let name = &row.name;
    if row.unbuilt().is_some() || row.serving.is_some() {
        return not_ready("Building", "it is being built".to_owned());
    }
    if row.offered.is_some() {
        let message = format!("it waits for your yes; say `famulus plugin permit {name}`");
        return not_ready("Offered", message);
    }
    not_ready("Pending", "it is being fetched".to_owned())
}

pub(crate) fn build_source(source: PluginSource) -> BuildSource {
    match source {
        PluginSource::Git { url, r#ref } => BuildSource::Git { url, r#ref },
        PluginSource::Inline { files } => {
            let file = |PluginFile { path, content }: PluginFile| BuildFile { path, content };
            BuildSource::Inline { files: files.into_iter().map(file).collect() }
        }
    }
}
