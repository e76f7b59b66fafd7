//! The variables that a tool sees; these five and no other.

use std::path::{Path, PathBuf};

/// Where a tool finds programs, and where it may keep what can be had again.
#[derive(Clone, Debug)]
pub struct Environment {
    pub path: String,
    /// The versions of Python that `uv` installed.
    pub python: PathBuf,
    /// `uv` and `home` of the sandbox.
    pub cache: PathBuf,
}

impl Environment {
    /// `temporary` is where the run may leave what is nobody's output.
    #[must_use]
    pub fn variables(&self, temporary: &Path) -> Vec<(String, String)> {
        let cache = |name: &str| self.cache.join(name).to_string_lossy().into_owned();
        [
            ("PATH", self.path.clone()),
            ("UV_CACHE_DIR", cache("uv")),
            ("UV_PYTHON_INSTALL_DIR", self.python.to_string_lossy().into_owned()),
            ("HOME", cache("home")),
            ("TMPDIR", temporary.to_string_lossy().into_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
