//! What goes in and out: pictures, albums, notices, reminders.

use super::{TOKEN, let_in, setup};
use crate::world;
use famulus_scripted_telegram::{Kind, Message, Telegram, User};
use serde_json::json;

#[tokio::test]
async fn a_photo_comes_in_and_goes_back() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &telegram, &ada, false).await;
        let picture = vec![7; 3 * 1024];
        let handle = telegram.keep(picture.clone());
        let photo = json!({"caption": "Send it back", "photo": [
            {"file_id": handle, "file_unique_id": "u", "width": 8, "height": 8, "file_size": 3072}
        ]});
        telegram.send(&ada, &ada.chat(), photo);
        let is_file = |one: &Message| matches!(one.kind, Kind::File { .. });
        let back = telegram.wait_for(7, is_file).await;
        let Kind::File { field, bytes, .. } = &back.kind else { panic!("{back:?}") };
        assert_eq!((field.as_str(), bytes.to_vec()), ("photo", picture));
        telegram.wait_for(7, |one| one.text.starts_with("I have sent you")).await;
        // A document is one.
        let handle = telegram.keep("the report");
        let document = json!({"caption": "Send me the file", "document": {
            "file_id": handle, "file_unique_id": "v", "file_name": "report.txt",
            "mime_type": "text/plain", "file_size": 10}});
        telegram.send(&ada, &ada.chat(), document);
        let is_report =
            |one: &Message| matches!(&one.kind, Kind::File { name, .. } if name == "report.txt");
        let back = telegram.wait_for(7, is_report).await;
        let Kind::File { field, bytes, .. } = &back.kind else { panic!("{back:?}") };
        assert_eq!((field.as_str(), bytes.as_ref()), ("document", b"the report".as_slice()));
    })
    .await;
}

/// Its parts come one by one, and the words stand on one of them.
#[tokio::test]
async fn an_album_is_one_message() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &telegram, &ada, true).await;
        for number in 0..3 {
            let handle = telegram.keep(vec![number; 1024]);
            let mut part = json!({"media_group_id": "summer", "photo": [
                {"file_id": handle, "file_unique_id": handle, "width": 8, "height": 8,
                 "file_size": 1024}]});
            if number == 1 {
                part["caption"] = json!("Remember that this was Delos");
            }
            telegram.send(&ada, &ada.chat(), part);
        }
        telegram.wait_for(7, |one| one.text.contains("Delos")).await;
        let messages = world.owner.messages("main").await;
        let of_ada: Vec<_> = messages.iter().filter(|one| one["role"] == "user").collect();
        let [message] = of_ada.as_slice() else { panic!("{of_ada:?}") };
        let parts = message["parts"].as_array().unwrap();
        let pictures = parts.iter().filter(|part| part["type"] == "image").count();
        assert_eq!(pictures, 3, "{message}");
        let answers =
            telegram.sent_to(7).into_iter().filter(|one| one.text.contains("Delos")).count();
        assert_eq!(answers, 1);
    })
    .await;
}

/// In the chat, and once, also when the owner is at home elsewhere by then.
#[tokio::test]
async fn what_the_installation_says_comes_to_the_owners_chat() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let (phone, tablet) = (User::new(7, "Ada"), User::new(8, "Ada"));
        for user in [&phone, &tablet] {
            let_in(world, &telegram, user, true).await;
            telegram.write(user, &user.chat(), "/home");
            telegram.wait_for(user.id, |one| one.text.contains("comes here from now on")).await;
            let notices = world.app(|app| app.notices.clone());
            notices.tell("today", "No backup was taken: the disk is full.").await.unwrap();
        }
        telegram.wait_for(7, |one| one.text.contains("the disk is full")).await;
        let notices = world.app(|app| app.notices.clone());
        notices.tell("tomorrow", "No backup was taken: the disk is gone.").await.unwrap();
        telegram.wait_for(8, |one| one.text.contains("the disk is gone")).await;
        let told: Vec<_> =
            telegram.sent().into_iter().filter(|one| one.text.contains("No backup")).collect();
        assert_eq!(told.len(), 2, "{told:?}");
    })
    .await;
}

/// A reminder comes where it was asked for.
#[tokio::test]
async fn a_schedule_speaks_in_the_chat_where_it_was_made() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &telegram, &ada, false).await;
        telegram.write(&ada, &ada.chat(), "Remind me in 2 seconds to drink tea");
        telegram.wait_for(7, |one| one.text.contains("I will remind you")).await;
        telegram.wait_for(7, |one| one.text.starts_with("Reminder")).await;
    })
    .await;
}

/// One that was asked for where nobody is reached comes where its person is at home.
#[tokio::test]
async fn a_schedule_of_a_terminal_speaks_in_the_chat_that_is_home() {
    let telegram = Telegram::start(TOKEN).await.unwrap();
    world::run(setup(&telegram), async |world| {
        let ada = User::new(7, "Ada");
        let_in(world, &telegram, &ada, true).await;
        telegram.write(&ada, &ada.chat(), "What time is it?");
        telegram.wait_for(7, |one| one.text.starts_with("It is")).await;
        world.owner.say("Remind me in 2 seconds to drink tea").await;
        let reminder = telegram.wait_for(7, |one| one.text.starts_with("Reminder")).await;
        assert!(reminder.text.contains("drink tea"), "{reminder:?}");
        let told = telegram.sent_to(7).into_iter().filter(|one| one.text.contains("tea"));
        assert_eq!(told.count(), 1, "what was said at the terminal stays there");
    })
    .await;
}
