//! Tools whose effects are counted by a service of the test, each under the key of its call.

use async_trait::async_trait;
use famulus_core::tool::{CallContext, Effect, Repeat, ToolOutput};
use famulus_tools::{Policy, Tool, ToolError};
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// The counting tools, one for each way in which policy treats a call.
pub(crate) fn all(counter: SocketAddr) -> Vec<Arc<dyn Tool>> {
    let external = |repeat| Policy::new(None, Effect::External, repeat);
    let tools = [
        ("effect_a", Policy::new(None, Effect::Write, Repeat::Safe)),
        ("effect_b", external(Repeat::Never)),
        ("effect_c", external(Repeat::Never).asks()),
    ];
    tools
        .into_iter()
        .map(|(name, policy)| {
            Arc::new(Counted { name, policy: [policy], counter }) as Arc<dyn Tool>
        })
        .collect()
}

struct Counted {
    name: &'static str,
    policy: [Policy; 1],
    counter: SocketAddr,
}

#[async_trait]
impl Tool for Counted {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &'static str {
        "Counts the call."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}, "at": {"type": "integer"}},
            "required": ["n", "at"],
            "additionalProperties": false,
        })
    }

    fn policy(&self) -> &[Policy] {
        &self.policy
    }

    fn summary(&self, arguments: &Value) -> Result<String, ToolError> {
        Ok(format!("count {} at {}", arguments["n"], arguments["at"]))
    }

    async fn run(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let line =
            format!("{} {} {} {}\n", self.name, context.key, arguments["n"], arguments["at"]);
        match self.count(&line).await {
            Ok(answer) => Ok(ToolOutput::Text(answer)),
            Err(error) => Ok(ToolOutput::Unknown(format!("the counter broke off: {error}"))),
        }
    }
}

impl Counted {
    async fn count(&self, line: &str) -> std::io::Result<String> {
        tell(self.counter, line).await
    }
}

/// Says one line to the service, and reads its answer.
pub(crate) async fn tell(counter: SocketAddr, line: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(counter).await?;
    stream.write_all(line.as_bytes()).await?;
    let mut answer = String::new();
    if BufReader::new(stream).read_line(&mut answer).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer.trim_end().to_owned())
}
