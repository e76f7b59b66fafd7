//! Every key of the configuration: what it means, and when a change of it takes effect.

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Within seconds of the file being saved, from the next turn on.
    Live,
    /// At the next start.
    Restart,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub path: &'static str,
    pub takes: Takes,
    pub meaning: &'static str,
}

const fn live(path: &'static str, meaning: &'static str) -> Key {
    Key { path, takes: Takes::Live, meaning }
}

const fn restart(path: &'static str, meaning: &'static str) -> Key {
    Key { path, takes: Takes::Restart, meaning }
}

/// All keys. `*` stands for a name of the owner's choosing.
pub const KEYS: &[Key] = &[
    restart("data_dir", "folder of the private Postgres, the first token and the prompt's history"),
    restart("owner.name", "what the assistant calls its owner; used when the owner is first made"),
    restart("owner.time_zone", "IANA zone of the owner when first made; default: this machine's"),
    live(
        "model.base_url",
        "an OpenAI-compatible endpoint, for example http://127.0.0.1:8080/v1; without it the demo model answers",
    ),
    live("model.name", "the model to ask for"),
    live("model.api_key", "a reference: { env = \"NAME\" } or { file = \"/path\" }"),
    live("model.api_key.env", "name of the environment variable that holds the key"),
    live("model.api_key.file", "file that holds the key"),
    live("model.headers.*.env", "an extra header's value, from the environment"),
    live("model.headers.*.file", "an extra header's value, from a file"),
    live("model.tool_dialect", "native, xml or auto: how the model asks for tools"),
    live("model.system_prompt", "separate or joined: one or two system messages"),
    live("model.images", "whether the model sees images"),
    live("model.audio", "whether the model hears WAV and MP3"),
    live("model.demo.delay_ms", "milliseconds between the demo model's words"),
    restart(
        "transcription.base_url",
        "an OpenAI-compatible endpoint that turns recordings into text; without it nobody listens for a model that does not hear",
    ),
    restart("transcription.name", "the model that listens"),
    restart("transcription.api_key.env", "name of the environment variable that holds its key"),
    restart("transcription.api_key.file", "file that holds its key"),
    restart("transcription.headers.*.env", "an extra header's value, from the environment"),
    restart("transcription.headers.*.file", "an extra header's value, from a file"),
    restart("transcription.formats", "formats that it takes, as names of files end"),
    restart("transcription.bytes", "largest recording that it is sent, in bytes"),
    restart("transcription.seconds", "how long one recording may take"),
    restart(
        "speech.base_url",
        "an OpenAI-compatible endpoint that says text aloud; without it no recordings are made",
    ),
    restart("speech.name", "the model that speaks"),
    restart("speech.api_key.env", "name of the environment variable that holds its key"),
    restart("speech.api_key.file", "file that holds its key"),
    restart("speech.headers.*.env", "an extra header's value, from the environment"),
    restart("speech.headers.*.file", "an extra header's value, from a file"),
    restart("speech.voice", "the voice, as its provider calls it"),
    restart("speech.instructions", "how it is to be said, for models that take a word on it"),
    restart("speech.format", "opus, mp3, aac, flac or wav; chats show opus as a voice note"),
    restart("speech.characters", "characters that are said at once"),
    restart("speech.seconds", "how long one recording may take"),
    restart("turns.concurrency", "turns worked at once by this process"),
    live("turns.approval_seconds", "seconds that a question to a person stays open"),
    live("turns.history_tokens", "tokens of history sent to the model"),
    live("turns.knowledge_tokens", "tokens of memories and page titles sent to the model"),
    live("turns.first_silence_seconds", "seconds until a model's first sign of life"),
    live("turns.silence_seconds", "seconds between two signs of life, pings included"),
    live("turns.model_retries", "tries after a model's failure that may pass"),
    live(
        "turns.model_outage_seconds",
        "seconds that one turn may lose to a provider that fails: tries without a word, and pauses",
    ),
    restart("queue.lease_seconds", "seconds until another process takes over from a silent one"),
    restart("queue.max_attempts", "deaths of workers after which a turn becomes a dead letter"),
    restart("queue.grace_seconds", "seconds that running turns may finish in at shutdown"),
    restart("retention.events_hours", "hours that viewers may come back to a turn that ended"),
    restart("retention.repeats_days", "days in which a message or write that is repeated is known"),
    restart("retention.files_days", "days that a file stays which no message refers to"),
    restart("retention.deliveries_days", "days that what went out is listed, after it ended"),
    restart("retention.questions_days", "days that a question is listed, after it was answered"),
    restart("retention.slots_days", "days that it is known which slots of a schedule fired"),
    restart(
        "database.url",
        "a reference to a Postgres URL, instead of the private Postgres; DATABASE_URL does the same",
    ),
    restart("database.url.env", "name of the environment variable that holds the URL"),
    restart("database.url.file", "file that holds the URL"),
    restart("database.bin_dir", "the bin folder of the Postgres installation to use"),
    restart(
        "database.shared_buffers_mb",
        "MiB that the private Postgres shares among its sessions",
    ),
    restart("database.durable_sessions", "sessions whose commits wait for the disk"),
    restart("database.relaxed_sessions", "sessions for leases and reads"),
    restart("backup.folder", "where backups are kept; default: `backups` in data_dir"),
    restart("backup.s3.bucket", "a bucket of an S3-compatible store, instead of a folder"),
    restart("backup.s3.prefix", "what the names of all objects begin with, up to a slash"),
    restart("backup.s3.endpoint", "the store, https://host, if it is not Amazon's"),
    restart("backup.s3.region", "as the store calls it; default: us-east-1"),
    restart("backup.s3.access_key_id", "who the store takes us for"),
    restart("backup.s3.secret_access_key", "a reference to the secret of that key"),
    restart(
        "backup.s3.secret_access_key.env",
        "name of the environment variable that holds the secret",
    ),
    restart("backup.s3.secret_access_key.file", "file that holds the secret"),
    restart(
        "backup.s3.ca_file",
        "certificates in PEM that the store is trusted by, besides those of the machine",
    ),
    restart(
        "backup.recipient",
        "the public key, age1…, that backups are encrypted to; without it they are not, and leave secrets out",
    ),
    restart(
        "backup.identity_file",
        "file with the private key, for `famulus restore` and `famulus backup verify`",
    ),
    restart("backup.channels.signal.url", "where `famulus hold` stands beside signal-cli's daemon"),
    restart("backup.channels.signal.key_file", "file with what it has to be told"),
    restart(
        "backup.every_hours",
        "hours between two backups that `famulus up` takes; 0: it takes none",
    ),
    restart(
        "backup.before_updates",
        "whether `famulus up` takes one before a newer release changes the database",
    ),
    restart(
        "backup.verify_every_hours",
        "hours after which `famulus up` restores one again, into a server that is thrown away; 0: only when asked",
    ),
    restart(
        "backup.overdue_hours",
        "hours without a backup after which `famulus serve`, on a database that others back up, says so; 0: never",
    ),
    restart("backup.keep_hourly", "hours, the newest that have one, of which a backup is kept"),
    restart("backup.keep_daily", "days of which a backup is kept"),
    restart("backup.keep_monthly", "months of which a backup is kept"),
    restart("backup.keep_yearly", "years of which a backup is kept; all of them without it"),
    restart("api.listen", "address and port of the HTTP surface"),
    restart("api.internal_listen", "address and port for what runs beside the assistant"),
    restart(
        "api.callback_listen",
        "address and port for what runs in sandboxes; nothing listens without it",
    ),
    restart(
        "api.canary_listen",
        "address and port that no sandbox may reach, by which each shows that it is closed in",
    ),
    restart("api.json_bytes", "largest JSON body, in bytes"),
    restart("api.chat_body_bytes", "largest body of POST /chat, files included, in bytes"),
    restart("api.buffered_bytes", "bodies held in memory at once, in bytes; more of them wait"),
    restart("api.upload_bytes", "largest file of POST /api/upload, in bytes"),
    restart("api.blob_bytes", "largest file of POST /v1/blobs, in bytes"),
    restart(
        "api.failed_auth_per_minute",
        "wrong credentials that one address may send in a minute",
    ),
    restart("api.requests_per_second", "requests of one token in a second, in the long run"),
    restart("api.requests_burst", "requests of one token at once"),
    restart("api.viewer_limit", "event streams at once"),
    restart("api.connection_limit", "connections at once, event streams included"),
    restart("api.request_timeout_seconds", "for a request's head, and a pause in its body"),
    restart(
        "api.body_bytes_per_second",
        "bytes of a body that must come in a second, in the long run; a slower one is cut off",
    ),
    restart("api.chat_wait_seconds", "how long POST /chat waits for its reply"),
    restart(
        "channels.day_bytes",
        "files that one person may send on chat channels within a day, in bytes",
    ),
    restart(
        "channels.http.webhook_url",
        "where replies are posted to; without it they stay in the conversation",
    ),
    restart(
        "channels.http.webhook_secret.env",
        "name of the variable with the webhook's signing secret",
    ),
    restart("channels.http.webhook_secret.file", "file with the webhook's signing secret"),
    restart("channels.signal.url", "address of the daemon of signal-cli"),
    restart("channels.signal.account", "number of yours, where the daemon has several"),
    restart(
        "channels.signal.serves_everybody",
        "whether the account is the assistant's alone; a person's own serves notes to self",
    ),
    restart(
        "channels.signal.access",
        "how strangers are met: pairing (by a code), or allowlist (nothing is said)",
    ),
    restart("channels.signal.allow", "account ids and numbers that need no code; * is everybody"),
    restart("channels.signal.owner_acts", "whether your account there may approve"),
    restart("channels.telegram.token.env", "name of the variable with the bot's token"),
    restart("channels.telegram.token.file", "file with the bot's token, as BotFather gave it"),
    restart("channels.telegram.base_url", "address of a Bot API server of your own"),
    restart(
        "channels.telegram.access",
        "how strangers are met: `pairing` gives them a code for you, `allowlist` is silent",
    ),
    restart(
        "channels.telegram.allow",
        "user ids that are let in without a code, as contacts; `*` is everybody",
    ),
    restart("channels.telegram.owner_acts", "whether your account there may approve"),
    restart(
        "plugins.allow_hosts",
        "on one machine: hosts with port that plugins are fetched from although their addresses are private",
    ),
    restart("plugins.runner", "on one machine: the program famulus-runner, if not beside famulus"),
    restart(
        "plugins.packages.python",
        "on one machine: an index of Python packages for builds, instead of the public one; it may be private",
    ),
    restart(
        "plugins.packages.npm",
        "on one machine: a registry of npm for builds, instead of the public one; it may be private",
    ),
    restart(
        "plugins.packages.credentials",
        "on one machine: folder with credentials for both, `netrc` and `npmrc`; every init script can read them",
    ),
    restart(
        "plugins.repositories.credentials",
        "on one machine: folder with credentials for private repositories: `netrc`, `ssh-privatekey` with \
         `known_hosts`, `ca.crt`; no code of a plugin sees them",
    ),
    restart("cluster.sandbox_namespace", "where Plugins and their Pods are, in a cluster"),
    restart("cluster.root_key_file", "file with the installation's root key"),
    restart(
        "cluster.keeper_key_file",
        "file with the key by which runners give what plugins keep, for backups",
    ),
    restart(
        "cluster.callback_url",
        "where runners find api.callback_listen of any process; a name is looked up for each call",
    ),
    restart(
        "cluster.token_secret.namespace",
        "namespace of the Secret that the file `token` is mounted from, for the command that replaces it",
    ),
    restart("cluster.token_secret.name", "name of that Secret"),
    restart(
        "cluster.kept_bundles",
        "revisions of each plugin that can be gone back to, the last that were built, beside the pinned and the serving one",
    ),
    live(
        "telemetry.log",
        "error, warn, info, debug, trace, or directives such as info,famulus_queue=debug",
    ),
    restart("telemetry.format", "text or json"),
    restart(
        "telemetry.otlp_endpoint",
        "base URL of an OTLP/HTTP collector; traces are off without it",
    ),
];

/// The path of a key within a section.
pub(super) fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

impl Key {
    /// Whether this key stands for the path.
    pub fn covers(&self, path: &str) -> bool {
        let (mut own, mut other) = (self.path.split('.'), path.split('.'));
        loop {
            match (own.next(), other.next()) {
                (None, None) => return true,
                (Some("*"), Some(_)) => {}
                (Some(a), Some(b)) if a == b => {}
                _ => return false,
            }
        }
    }
}
