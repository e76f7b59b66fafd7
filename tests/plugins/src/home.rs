//! What the homes of plugins differ in: how they are asked.

use async_trait::async_trait;
use serde_json::Value;

use crate::outside::Outside;

/// What is done to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    /// As HTTP has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// An assistant with plugins, asked over HTTP with its owner's token.
#[async_trait]
pub trait Home: Sync {
    /// The status, and the JSON of the answer: null where it has none.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value);

    /// Asks, and is not refused.
    async fn asked(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, String> {
        let (status, said) = self.ask(method, path, body.as_ref()).await;
        if (200..300).contains(&status) {
            return Ok(said);
        }
        Err(format!("{} {path}: {status} {said}", method.name()))
    }

    /// Runs a tool and waits for its end: the lines that were answered.
    async fn run(&self, plugin: &str, tool: &str, parameters: &Value) -> String;

    /// What it fetches repositories and packages from. Without it plugins that need any do not live here, and
    /// the home has said so.
    fn outside(&self) -> Option<&Outside> {
        None
    }
}
