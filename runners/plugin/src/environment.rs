//! The variables that a tool sees; these five and no other.

use std::path::Path;

use crate::settings::Sandbox;

/// `temporary` is where the run may leave what is nobody's output.
pub(crate) fn of(sandbox: &Sandbox, temporary: &Path) -> Vec<(String, String)> {
    let cache = |name: &str| sandbox.cache.join(name).to_string_lossy().into_owned();
    [
        ("PATH", sandbox.path.clone()),
        ("UV_CACHE_DIR", cache("uv")),
        ("UV_PYTHON_INSTALL_DIR", sandbox.python.to_string_lossy().into_owned()),
        ("HOME", cache("home")),
        ("TMPDIR", temporary.to_string_lossy().into_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
