//! What was said in a recording stands beside it wherever a model has answered it, and nothing else
//! does.

use super::tables::Tables;
use crate::support::world::World;
use uuid::Uuid;

pub(super) fn check(world: &World, tables: &Tables, found: &mut Vec<String>) {
    let mut listened = 0;
    let recordings = world.log.recordings.lock().clone();
    for message in tables.messages.values().flatten().filter(|message| message.is("user")) {
        for part in message.of_type("audio") {
            let id = part["blob"]["id"].as_str().and_then(|id| id.parse::<Uuid>().ok());
            let words = id.and_then(|id| recordings.get(&id));
            let turn = tables.turns.get(&message.turn);
            let is_answered = turn.is_some_and(|turn| turn.is_complete() && turn.steps > 0);
            let heard = &part["heard"];
            let right = if heard.is_null() {
                !is_answered
            } else {
                listened += 1;
                heard["words"].as_str() == words.map(String::as_str)
            };
            if !right {
                found.push(format!(
                    "message {}: in the recording of {words:?} was heard {heard}",
                    message.id
                ));
            }
        }
    }
    let asked = world.listener.received().len();
    if asked < listened {
        found.push(format!(
            "{listened} recordings were heard, and the listener was asked {asked} times"
        ));
    }
}
