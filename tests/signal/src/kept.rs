//! What outlives a daemon that has a folder for it, where the real one has it: accounts, and files that came.

use crate::world::World;
use bytes::Bytes;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const DATA: &str = "data";
const ACCOUNTS: &str = "data/accounts.json";
const FILES: &str = "attachments";

impl World {
    /// As the daemon before left it. Without a folder there is an account.
    ///
    /// # Errors
    /// The folder cannot be used, or the accounts in it cannot be read.
    pub(crate) fn open(folder: Option<PathBuf>) -> io::Result<Self> {
        let mut world = Self::new();
        if let Some(folder) = folder {
            for part in [DATA, FILES] {
                fs::create_dir_all(folder.join(part))?;
            }
            world.accounts = accounts(&folder.join(ACCOUNTS))?;
            world.folder = Some(folder);
        }
        Ok(world)
    }

    pub(crate) fn add_account(&mut self, number: String, id: String) -> io::Result<()> {
        self.accounts.push((number, id));
        self.keep_accounts()
    }

    pub(crate) fn keep_accounts(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let all = self.accounts.iter().map(|(number, id)| json!({"number": number, "uuid": id}));
        let all: Value = all.collect();
        fs::write(folder.join(ACCOUNTS), json!({ "accounts": all }).to_string())
    }

    /// The id of a file that came.
    pub(crate) fn keep(&mut self, bytes: Bytes) -> io::Result<String> {
        let id = format!("file{}", self.now());
        if let Some(folder) = &self.folder {
            fs::write(folder.join(FILES).join(&id), &bytes)?;
        } else {
            self.files.insert(id.clone(), bytes);
        }
        Ok(id)
    }

    pub(crate) fn file(&self, id: &str) -> Option<Bytes> {
        match &self.folder {
            Some(folder) => {
                // A name, which leads out of no folder.
                let name = Path::new(id).file_name().filter(|name| *name == id)?;
                fs::read(folder.join(FILES).join(name)).ok().map(Bytes::from)
            }
            None => self.files.get(id).cloned(),
        }
    }
}

fn accounts(file: &Path) -> io::Result<Vec<(String, String)>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let kept: Value = serde_json::from_slice(&fs::read(file)?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = kept["accounts"].as_array().into_iter().flatten();
    Ok(all.map(|one| (text(&one["number"]), text(&one["uuid"]))).collect())
}
