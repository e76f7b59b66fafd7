//! A revision for a volume that ends with its Pod: the runner fetches it from the app and builds it.
//!
//! ```text
//! app ─► bundle, by its digest ─► tree, as a build makes it ─► served as any other
//! ```
//!
//! A bundle is kept by the app since its source was bundled, elsewhere, so that no source is asked
//! here. What code of the plugin runs is held as a call is held.

use std::path::Path;

use famulus_protocol::revision::Wanted;
use famulus_runner_harness::supervisor::Supervisor;
use famulus_runner_harness::{App, Credentials, Mounted};

use crate::build::{BuildContext, Bundle, lead};
use crate::bundle::{Failure, kept};
use crate::plugin::Plugin;
use crate::volume::Volume;
use famulus_runner_harness::scratch::remove;

/// Makes the tree of a revision.
pub(crate) async fn fetch_revision(
    revision: &str,
    from: &str,
    mounted: &Mounted,
    plugin: &Plugin,
    volume: &Volume,
    supervisor: &Supervisor,
) -> Result<(), Failure> {
    let Wanted { uid, rendered, .. } = &mounted.wanted;
    let credentials =
        Credentials { bearer: mounted.bearer.clone(), identity: Some((uid.clone(), *rendered)) };
    let app = App::new(from, credentials).ok_or_else(|| {
        let what = format!("`{}` is no plain http URL of the app", from.escape_debug());
        Failure::build(format!("{what}; see the operator's settings"))
    })?;
    let disk = || Failure::disk("the plugin's volume");
    volume.prepare().map_err(disk())?;
    let file = volume.incoming();
    kept::fetch(revision, &app, &file).await?;
    let bundle = Bundle { file, revision: revision.to_owned(), commit: None };
    let link = plugin.path();
    let context = BuildContext {
        volume,
        plugins: link.parent().unwrap_or_else(|| Path::new("/")),
        given: mounted.config.as_deref(),
        sandbox: plugin.sandbox(),
        supervisor,
    };
    let built = context.build(&bundle).await;
    if let Err(error) = remove(&bundle.file) {
        tracing::warn!(%error, "the bundle stays beside its tree");
    }
    let led = lead(link, &volume.active_link());
    built?;
    led.map_err(Failure::disk("the folder of plugins"))
}
