//! A scripted Telegram beside the node.

use serde_json::json;

use famulus_cluster_tests::kubectl::kubectl;
use famulus_cluster_tests::release::name;
use famulus_scripted_telegram::{Kind, Message, Telegram, User};

use super::guest::{Messenger, Sent};

const TOKEN: &str = "99:known-to-the-tests-of-clusters";
const SECRET: &str = "telegram";
/// Values of a release that is told of none.
pub(crate) const WITHOUT: &str = "app.telegram.existingSecret=,app.telegram.baseUrl=";

/// Starts one, and has the values of a release that is told of it.
pub(crate) async fn start(node: &str) -> (Telegram, String) {
    let telegram = Telegram::at(TOKEN, node.parse().unwrap()).await.unwrap();
    let token = format!("--from-literal=token={TOKEN}");
    kubectl(&["-n", &name(), "create", "secret", "generic", SECRET, &token]).await;
    let base = telegram.base_url();
    let values = format!("app.telegram.baseUrl={base},app.telegram.existingSecret={SECRET}");
    (telegram, values)
}

pub(crate) async fn stop(telegram: &Telegram) {
    kubectl(&["-n", &name(), "delete", "secret", SECRET]).await;
    telegram.stop().await;
}

/// Somebody who writes to the bot.
pub(crate) struct Writer<'a> {
    pub(crate) telegram: &'a Telegram,
    pub(crate) user: User,
}

impl Messenger for Writer<'_> {
    async fn write(&self, text: &str) {
        self.telegram.write(&self.user, &self.user.chat(), text);
    }

    async fn send_report(&self, caption: &str, bytes: &[u8]) {
        let id = self.telegram.keep(bytes.to_vec());
        let document = json!({
            "file_id": id, "file_unique_id": id, "file_name": "report.txt",
            "mime_type": "text/plain", "file_size": bytes.len(),
        });
        let fields = json!({"caption": caption, "document": document});
        self.telegram.send(&self.user, &self.user.chat(), fields);
    }

    async fn sent(&self) -> Vec<Sent> {
        self.telegram.sent_to(self.user.id).into_iter().map(sent).collect()
    }

    async fn unheard(&self) -> usize {
        self.telegram.unconfirmed()
    }

    /// Telegram tells again what was not confirmed.
    async fn gone(&self) -> Vec<String> {
        Vec::new()
    }
}

fn sent(message: Message) -> Sent {
    let bold = message.entities.iter().find(|entity| entity.kind == "bold");
    let covered = |text: &str, offset, length| text.chars().skip(offset).take(length).collect();
    let bold = bold.map(|bold| covered(&message.text, bold.offset, bold.length));
    let files = match message.kind {
        Kind::File { bytes, .. } => vec![bytes.to_vec()],
        Kind::Text => Vec::new(),
    };
    Sent { text: message.text, bold, files }
}
