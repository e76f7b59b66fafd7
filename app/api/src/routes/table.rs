//! Everything that is served, line by line.

use super::{Header, Route};
use crate::handlers as h;
use famulus_core::{
    agent::Agent,
    blob::BlobRef,
    knowledge::Knowledge,
    person::Person,
    plugin::{
        Offer,
        editing::{FileContent, FileList},
    },
    schedule::Schedule,
};

const KEY: Header = Header {
    name: "Idempotency-Key",
    pattern: h::messages::KEY_PATTERN,
    what: "The same message with the same key is taken once.",
};

const LAST_EVENT: Header = Header {
    name: "Last-Event-ID",
    pattern: h::events::OPTIONAL_PLACE,
    what: "The id of the last event that was received.",
};

/// Everything that is served.
pub(crate) fn table() -> Vec<Route> {
    vec![
        Route::get("/livez", h::health::live, "Whether the process lives")
            .public()
            .internal_too()
            .gives::<h::health::Health>(),
        Route::get("/readyz", h::health::ready, "Whether the process takes work, and if not, why")
            .public()
            .gives::<h::health::Health>()
            .or_gives::<h::health::Health>(503),
        Route::get("/metrics", h::health::metrics, "Measurements in the Prometheus text format")
            .owner()
            .gives_raw("text/plain"),
        Route::get("/openapi.json", h::health::openapi, "This document")
            .gives_raw("application/json"),
        Route::post(
            "/chat",
            h::chat::chat,
            "Send a message and wait for the reply; with `async` do not wait",
        )
        .internal_too()
        .reads(&[KEY])
        .takes::<h::chat_request::ChatRequest>()
        .gives::<h::chat::ChatReply>()
        .or_gives::<h::chat::AcceptedReply>(202)
        .errors(&[404, 409]),
        Route::post("/api/upload", h::upload::upload, "Send a file as a message")
            .reads(&[KEY])
            .takes_form::<h::upload::UploadForm>()
            .gives::<h::upload::Uploaded>()
            .errors(&[409]),
        Route::get("/v1/me", h::me::read, "Who the token belongs to").gives::<h::me::Me>(),
        Route::patch("/v1/me", h::me::change, "Change the own name, time zone or language")
            .takes::<h::me::MeChange>()
            .gives::<Person>(),
        Route::get("/v1/conversations", h::conversations::list, "Conversations, last used first")
            .asks::<h::conversations::ListQuery>()
            .gives::<h::conversations::Conversations>(),
        Route::post("/v1/conversations", h::conversations::create, "Open a conversation")
            .takes::<h::conversations::NewConversation>()
            .gives::<h::conversations::Conversation>()
            .status(201)
            .errors(&[404]),
        Route::get("/v1/conversations/{id}", h::conversations::read, "One conversation, or `main`")
            .gives::<h::conversations::Conversation>()
            .errors(&[404]),
        Route::patch("/v1/conversations/{id}", h::conversations::rename, "Name a conversation")
            .takes::<h::conversations::Rename>()
            .gives::<h::conversations::Conversation>()
            .errors(&[404]),
        Route::get("/v1/conversations/{id}/messages", h::messages::list, "Its latest messages")
            .asks::<h::messages::ListQuery>()
            .gives::<h::messages::Messages>()
            .errors(&[404]),
        Route::post("/v1/conversations/{id}/messages", h::messages::send, "Send a message")
            .reads(&[KEY])
            .takes::<h::messages::NewMessage>()
            .gives::<h::messages::Accepted>()
            .status(202)
            .errors(&[404, 409]),
        Route::post("/v1/conversations/{id}/stop", h::turns::stop, "End whatever runs in it")
            .gives::<h::turns::Stopped>()
            .errors(&[404]),
        Route::get(
            "/v1/conversations/{id}/events",
            h::events::conversation,
            "What happens in it, as Server-Sent Events; resumes behind Last-Event-ID",
        )
        .asks::<h::events::EventsQuery>()
        .reads(&[LAST_EVENT])
        .gives_events()
        .errors(&[404]),
        Route::get(
            "/v1/events",
            h::events::person,
            "Changed lists and status of all conversations",
        )
        .gives_events(),
        Route::get("/v1/turns/{id}", h::turns::read, "One turn")
            .gives::<h::turns::Turn>()
            .errors(&[404]),
        Route::post("/v1/turns/{id}/cancel", h::turns::cancel, "End a turn")
            .gives::<h::turns::Cancelled>()
            .errors(&[404]),
        Route::post("/v1/turns/{id}/continue", h::turns::go_on, "Go on after a turn hit a limit")
            .reads(&[KEY])
            .gives::<h::messages::Accepted>()
            .status(202)
            .errors(&[404, 409]),
        Route::get(
            "/v1/approvals",
            h::approvals::list,
            "Questions that wait or waited, newest first",
        )
        .asks::<h::approvals::ListQuery>()
        .gives::<h::approvals::Approvals>(),
        Route::post("/v1/approvals/{id}", h::approvals::decide, "Answer one")
            .takes::<h::approvals::Decision>()
            .gives::<h::approvals::Question>()
            .errors(&[404, 409]),
        Route::get("/v1/schedules", h::schedules::list, "What is done by itself, and when next")
            .gives::<h::schedules::Schedules>(),
        Route::post("/v1/schedules", h::schedules::create, "Make a schedule")
            .takes::<h::schedules::NewSchedule>()
            .gives::<Schedule>()
            .status(201)
            .errors(&[404, 409]),
        Route::patch("/v1/schedules/{id}", h::schedules::change, "Change a schedule")
            .takes::<h::schedules::ScheduleChange>()
            .gives::<Schedule>()
            .errors(&[404, 409]),
        Route::delete("/v1/schedules/{id}", h::schedules::delete, "Delete a schedule")
            .errors(&[404]),
        Route::get("/v1/schedules/{id}/slots", h::schedules::slots, "What became of its slots")
            .asks::<h::schedules::SlotsQuery>()
            .gives::<h::schedules::Slots>()
            .errors(&[404]),
        Route::get("/v1/knowledge", h::knowledge::list, "Memories and scratchpad pages")
            .gives::<h::knowledge::KnowledgeList>(),
        Route::post("/v1/knowledge", h::knowledge::create, "Add a memory or a page")
            .takes::<h::knowledge::NewKnowledge>()
            .gives::<Knowledge>()
            .status(201),
        Route::get("/v1/knowledge/{id}", h::knowledge::read, "One entry")
            .gives::<Knowledge>()
            .errors(&[404]),
        Route::delete("/v1/knowledge/{id}", h::knowledge::delete, "Delete an entry").errors(&[404]),
        Route::post("/v1/blobs", h::blobs::create, "Store a file")
            .takes_raw("*/*")
            .gives::<BlobRef>()
            .status(201),
        Route::get("/v1/blobs/{id}", h::blobs::read, "A stored file")
            .gives_raw("*/*")
            .errors(&[404]),
        Route::get("/v1/tokens", h::tokens::list, "Tokens, without their secrets")
            .owner()
            .gives::<h::tokens::Tokens>(),
        Route::post("/v1/tokens", h::tokens::create, "Make a token; it is shown this once")
            .owner()
            .takes::<h::tokens::NewToken>()
            .gives::<h::tokens::MadeToken>()
            .status(201)
            .errors(&[404, 409]),
        Route::delete("/v1/tokens/{id}", h::tokens::revoke, "Revoke a token")
            .owner()
            .errors(&[404]),
        Route::get("/v1/people", h::people::list, "Everybody").owner().gives::<h::people::People>(),
        Route::post("/v1/people", h::people::create, "Add a person")
            .owner()
            .takes::<h::people::NewPerson>()
            .gives::<Person>()
            .status(201),
        Route::get("/v1/pairings", h::pairings::list, "Strangers who have a code")
            .owner()
            .gives::<h::pairings::Pairings>(),
        Route::post("/v1/pairings", h::pairings::let_in, "Let one in by their code")
            .owner()
            .takes::<h::pairings::LetIn>()
            .gives::<h::pairings::Known>()
            .errors(&[404]),
        Route::post(
            "/v1/invitations",
            h::invitations::create,
            "Make a link by which somebody's account on a chat channel becomes known",
        )
        .owner()
        .takes::<h::invitations::NewInvitation>()
        .gives::<h::invitations::MadeInvitation>()
        .status(201)
        .errors(&[404, 409]),
        Route::post(
            "/v1/links",
            h::links::begin,
            "Make a link by which an account is linked to the program of a chat channel",
        )
        .owner()
        .takes::<h::links::NewLink>()
        .gives::<h::links::BegunLink>()
        .status(201)
        .errors(&[404, 409]),
        Route::post("/v1/links/finish", h::links::finish, "Wait until such a link was scanned")
            .owner()
            .takes::<h::links::OpenLink>()
            .gives::<h::links::FinishedLink>()
            .errors(&[404, 409]),
        Route::post(
            "/v1/registrations",
            h::links::register,
            "Have a code sent to a number that the program of a chat channel is to register",
        )
        .owner()
        .takes::<h::links::NewRegistration>()
        .gives::<h::links::SentCode>()
        .status(201)
        .errors(&[404, 409]),
        Route::post("/v1/registrations/verify", h::links::verify, "Register it by that code")
            .owner()
            .takes::<h::links::RegistrationCode>()
            .gives::<h::links::FinishedLink>()
            .errors(&[404, 409]),
        Route::get("/v1/channels", h::channels::list, "How the chat channels stand")
            .owner()
            .gives::<h::channels::Channels>(),
        Route::get("/v1/agents", h::agents::list, "Agents").owner().gives::<h::agents::Agents>(),
        Route::post("/v1/agents", h::agents::create, "Add an agent")
            .owner()
            .takes::<h::agents::NewAgent>()
            .gives::<Agent>()
            .status(201)
            .errors(&[404, 409]),
        Route::patch("/v1/agents/{name}", h::agents::change, "Change an agent")
            .owner()
            .takes::<h::agents::AgentChange>()
            .gives::<Agent>()
            .errors(&[404]),
        Route::get("/v1/plugins", h::plugins::list, "Plugins, and how they are")
            .owner()
            .gives::<h::plugins::PluginList>()
            .errors(&[409]),
        Route::post("/v1/plugins", h::plugin_life::install, "Fetch a plugin; nothing of it runs")
            .owner()
            .takes::<h::plugin_life::NewPlugin>()
            .gives::<Offer>()
            .status(201)
            .errors(&[409, 422]),
        Route::get("/v1/plugins/{name}", h::plugins::read, "One plugin, with its tools")
            .owner()
            .gives::<h::plugins::Plugin>()
            .errors(&[404, 409]),
        Route::delete(
            "/v1/plugins/{name}",
            h::plugin_life::remove,
            "Remove a plugin with its files and its configuration",
        )
        .owner()
        .status(204)
        .errors(&[404, 409, 422]),
        Route::post("/v1/plugins/{name}/update", h::plugin_life::update, "Fetch a plugin anew")
            .owner()
            .takes::<h::plugin_life::PluginUpdate>()
            .gives::<Offer>()
            .errors(&[404, 409, 422]),
        Route::post(
            "/v1/plugins/{name}/permit",
            h::plugin_life::permit,
            "Have the revision that was looked at serve, with these tools and this network",
        )
        .owner()
        .takes::<h::plugin_life::Permit>()
        .gives::<h::plugins::Plugin>()
        .status(202)
        .errors(&[404, 409, 422]),
        Route::put(
            "/v1/plugins/{name}/config/{key}",
            h::plugin_life::configure,
            "Give a key of its configuration a value, which is shown nowhere",
        )
        .owner()
        .takes::<h::plugin_life::ConfigValue>()
        .status(204)
        .errors(&[404, 409, 422]),
        Route::delete(
            "/v1/plugins/{name}/config/{key}",
            h::plugin_life::unset,
            "Take its value from a key",
        )
        .owner()
        .status(204)
        .errors(&[404, 409, 422]),
        Route::post(
            "/v1/plugins/{name}/rollback",
            h::plugin_life::roll_back,
            "Have an earlier revision serve again",
        )
        .owner()
        .takes::<h::plugin_life::RollBack>()
        .gives::<h::plugins::Plugin>()
        .status(202)
        .errors(&[404, 409, 422]),
        Route::post(
            "/v1/plugins/{name}/create",
            h::plugin_files::create,
            "Make a plugin that is written here, empty or from a template; nothing of it runs",
        )
        .owner()
        .takes::<h::plugin_files::PluginDraft>()
        .gives::<Offer>()
        .status(201)
        .errors(&[409, 422]),
        Route::get("/v1/plugins/{name}/files", h::plugin_files::list, "Its files, as saved last")
            .owner()
            .gives::<FileList>()
            .errors(&[404, 409, 422]),
        Route::post(
            "/v1/plugins/{name}/files",
            h::plugin_files::edit,
            "Write, delete and move files, all in one revision; nothing of it runs",
        )
        .owner()
        .takes::<h::plugin_files::FileEdits>()
        .gives::<Offer>()
        .errors(&[404, 409, 422]),
        Route::get(
            "/v1/plugins/{name}/files/{*path}",
            h::plugin_files::read,
            "A file of it, as saved last",
        )
        .owner()
        .gives::<FileContent>()
        .errors(&[404, 409, 422]),
        Route::put(
            "/v1/plugins/{name}/files/{*path}",
            h::plugin_files::write,
            "Write a file; nothing of it runs",
        )
        .owner()
        .takes::<h::plugin_files::FileWrite>()
        .gives::<Offer>()
        .errors(&[404, 409, 422]),
        Route::delete(
            "/v1/plugins/{name}/files/{*path}",
            h::plugin_files::delete,
            "Delete a file; what serves goes on with it",
        )
        .owner()
        .gives::<Offer>()
        .status(200)
        .errors(&[404, 409, 422]),
        Route::get(
            "/v1/plugins/{name}/export",
            h::plugin_files::export,
            "Its newest files, also those of a plugin from git",
        )
        .owner()
        .gives_raw("application/x-tar")
        .errors(&[404, 409, 422]),
        Route::get("/v1/plugins/{name}/history", h::plugin_life::history, "What became of it")
            .owner()
            .gives::<h::plugin_life::History>()
            .errors(&[404, 409]),
        Route::post(
            "/v1/plugins/{name}/tools/{tool}/run",
            h::plugins::run,
            "Run a tool; lines of progress, the last one a result or an error",
        )
        .owner()
        .takes::<h::plugins::RunTool>()
        .gives_raw("application/x-ndjson")
        .errors(&[404]),
        Route::get(
            "/v1/plugins/{name}/logs",
            h::plugins::logs,
            "The end of what its runner logged",
        )
        .owner()
        .gives::<h::plugins::Logs>()
        .errors(&[404, 409]),
        Route::get("/v1/queue", h::queue::depth, "How much waits, runs and died")
            .owner()
            .gives::<h::queue::Queue>(),
        Route::get("/v1/queue/dead", h::queue::dead, "Jobs that are not tried again")
            .owner()
            .gives::<h::queue::DeadJobs>(),
        Route::post("/v1/queue/dead/{id}/retry", h::queue::retry, "Try one again")
            .owner()
            .gives::<h::queue::Retried>()
            .errors(&[404]),
        Route::get("/v1/outbox", h::outbox::list, "Messages on their way out, newest first")
            .owner()
            .asks::<h::outbox::ListQuery>()
            .gives::<h::outbox::Outbox>(),
        Route::post("/v1/outbox/{id}/retry", h::outbox::retry, "Send one again")
            .owner()
            .gives::<h::queue::Retried>()
            .errors(&[404]),
        Route::get("/v1/status", h::status::status, "The server in short, and its checks")
            .gives::<h::status::Report>(),
    ]
}
