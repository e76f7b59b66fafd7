//! What an owner and the demo model say about a plugin of a repository, from its address to its removal. Every word
//! is one that the README or the model itself suggests.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::home::{Home, Method};
use crate::life::{LifeError, PATIENCE, until};
use crate::plugin::File;
use crate::source::Repository;

const NAME: &str = "tea";

/// In no message.
const SECRET: &str = "canary-behind-the-third-tile";

/// Between two looks for an answer.
const LOOK: Duration = Duration::from_millis(50);

/// What the owner says to a question.
#[derive(Clone, Copy)]
enum To {
    Approve,
    Deny,
}

/// Says how much it made, with what it was configured, but for what is secret.
fn files(cups: &str) -> Vec<File> {
    let plugin = json!({"name": NAME, "description": "Makes tea.", "config": {
        "sugar": {"description": "Spoons of it.", "secret": false},
        "tile": {"description": "Where the good tea is."}}});
    let tool =
        json!({"name": "brew", "description": "Brews.", "entrypoint": "run", "parameters": {}});
    let run = format!(
        "#!/bin/sh\ncase \"$(cat ../config.json 2>/dev/null)\" in *'{SECRET}'*) echo the good;; esac\n\
         echo {cups} sugar: $(sed -n 's/.*\"sugar\": *\\([^,}}]*\\).*/\\1/p' ../config.json 2>/dev/null)\n"
    );
    let file = |path: &str, content: String| File { path: path.to_owned(), content };
    vec![
        file("manifest.json", plugin.to_string()),
        file("brew/manifest.json", tool.to_string()),
        file("brew/run", run),
    ]
}

/// Has the plugin live by words alone.
///
/// # Errors
/// The home did something else than it was to do.
pub async fn is_talked_through(home: &dyn Home) -> Result<(), LifeError> {
    let failed = |step| move |what| LifeError { plugin: NAME.to_owned(), step, what };
    let opened = Talk::open(home).await.map_err(failed("before a word"))?;
    let Talk { repository, .. } = &opened;
    let install = format!("Install {}", repository.url);
    repository.commit(&files("one cup")).map_err(failed("the first commit"))?;
    let steps = async |step, says: &str, to, hears: &[&str]| {
        Box::pin(opened.says(says, to, hears)).await.map_err(failed(step))
    };

    steps("a no", &install, To::Deny, &["I left it as it is"]).await?;
    opened.serves_nothing().await.map_err(failed("nothing runs behind a no"))?;
    steps("away with it", "Remove the plugin tea", To::Approve, &["is gone"]).await?;

    let offered = ["run brew of tea", "key `sugar`"];
    steps("a yes", &install, To::Approve, &offered).await?;
    opened.brews(&["one cup"]).await.map_err(failed("used"))?;
    steps("a value", "Set sugar of tea to two spoons", To::Deny, &["has its `sugar`"]).await?;
    let elsewhere = ["/configure tea tile", "famulus plugin configure tea tile"];
    steps("a secret", "Set tile of tea to the third", To::Deny, &elsewhere).await?;
    opened.is_given_the_secret().await.map_err(failed("a secret, elsewhere"))?;
    opened.brews(&["the good", "one cup", "two spoons"]).await.map_err(failed("configured"))?;

    steps("nothing new", "Update tea", To::Deny, &["is the newest already"]).await?;
    repository.commit(&files("two cups")).map_err(failed("the second commit"))?;
    steps("an update", "Update tea", To::Approve, &["run brew of tea"]).await?;
    opened.brews(&["two cups", "two spoons"]).await.map_err(failed("updated"))?;
    steps("back", "Roll back tea", To::Approve, &["`tea`"]).await?;
    opened.brews(&["one cup", "two spoons"]).await.map_err(failed("rolled back"))?;

    steps("its end", "Remove the plugin tea", To::Approve, &["is gone"]).await?;
    opened.leaves_nothing().await.map_err(failed("behind its end"))
}

struct Talk<'a> {
    home: &'a dyn Home,
    repository: Repository,
    conversation: String,
}

impl<'a> Talk<'a> {
    async fn open(home: &'a dyn Home) -> Result<Self, String> {
        let outside = home.outside().ok_or("the home has nothing to fetch from")?;
        let repository = Repository::new(&outside.git, NAME)?;
        let new = json!({"title": "Tea"});
        let (status, opened) = home.ask(Method::Post, "/v1/conversations", Some(&new)).await;
        let id = opened["id"].as_str().ok_or_else(|| format!("{status} {opened}"))?;
        let conversation = format!("/v1/conversations/{id}");
        Ok(Self { home, repository, conversation })
    }

    /// Says something, answers what is asked, and hears all these words in the end.
    async fn says(&self, words: &str, to: To, hears: &[&str]) -> Result<(), String> {
        let reply = self.answer(words, to).await?;
        let missing = hears.iter().find(|part| !reply.contains(**part));
        missing.map_or(Ok(()), |part| Err(format!("{words:?}: no {part:?} in {reply:?}")))
    }

    async fn answer(&self, words: &str, to: To) -> Result<String, String> {
        let path = format!("{}/messages", self.conversation);
        let sent = self.home.asked(Method::Post, &path, Some(json!({"text": words}))).await?;
        let begun = Instant::now();
        loop {
            self.decides(to).await?;
            let messages = self.home.asked(Method::Get, &path, None).await?;
            let messages = messages["messages"].as_array().cloned().unwrap_or_default();
            let answers = messages.iter().find(|message| {
                message["turn_id"] == sent["turn_id"]
                    && message["role"] == json!("assistant")
                    && message["has_text"] == json!(true)
            });
            if let Some(text) = answers.and_then(|answer| answer["text"].as_str()) {
                return Ok(text.to_owned());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{words:?} is not answered: {messages:?}"));
            }
            sleep(LOOK).await;
        }
    }

    /// Answers the questions of this conversation.
    async fn decides(&self, to: To) -> Result<(), String> {
        let asked = self.home.asked(Method::Get, "/v1/approvals?state=pending", None).await?;
        let decision = match to {
            To::Approve => "approve",
            To::Deny => "deny",
        };
        for question in asked["approvals"].as_array().into_iter().flatten() {
            let (id, of) = (question["id"].as_str(), question["conversation"].as_str());
            let (id, of) = (id.unwrap_or_default(), of.unwrap_or_default());
            if self.conversation.ends_with(of) {
                let asks = question.to_string();
                if asks.contains(" run, from ") && !asks.contains(" in 3 files") {
                    return Err(format!("it is not said how large it is: {asks}"));
                }
                let path = format!("/v1/approvals/{id}");
                self.home.asked(Method::Post, &path, Some(json!({"decision": decision}))).await?;
            }
        }
        Ok(())
    }

    /// Waits until its tool says all this, when it is asked for in words.
    async fn brews(&self, hears: &[&str]) -> Result<(), String> {
        until(async || self.says("Run brew of tea", To::Deny, hears).await).await
    }

    async fn serves_nothing(&self) -> Result<(), String> {
        let shown = self.home.asked(Method::Get, "/v1/plugins/tea", None).await?;
        let brewed = self.answer("Run brew of tea", To::Deny).await?;
        let ran = shown["ready"] != json!(false) || brewed.contains("one cup");
        if ran { Err(format!("{shown} {brewed}")) } else { Ok(()) }
    }

    async fn is_given_the_secret(&self) -> Result<(), String> {
        let path = "/v1/plugins/tea/config/tile";
        self.home.asked(Method::Put, path, Some(json!({"value": SECRET}))).await.map(drop)
    }

    async fn leaves_nothing(&self) -> Result<(), String> {
        until(async || match self.home.ask(Method::Get, "/v1/plugins/tea", None).await {
            (404, _) => Ok(()),
            (status, shown) => Err(format!("it is there: {status} {shown}")),
        })
        .await?;
        let path = format!("{}/messages?limit=200", self.conversation);
        let told = self.home.asked(Method::Get, &path, None).await?;
        if told.to_string().contains(SECRET) {
            return Err("the conversation has the secret".to_owned());
        }
        Ok(())
    }
}
