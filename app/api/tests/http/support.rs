//! The API on a loopback port, over a database of its own that is dropped when the test ends.

use crate::runners::FakeRunners;
use famulus_api::{Api, Config, Configured, Grantable, Listeners, Readiness};
use famulus_core::runner::Door;
use famulus_core::sandbox::RunOutput;
use famulus_core::{
    Clock as _,
    clock::SystemClock,
    event::{Envelope, Event, EventId, VERSION},
    ids::{ConversationId, MessageId, TurnId},
    message::Part,
    model::Usage,
    person::{Person, Role, Scope},
    turn::{Ending, NewMessage, TurnLog as _, TurnState},
};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_queue::{Class, hint::Topic};
use famulus_reception::Reception;
use famulus_store::{Connect, NewPerson, Store};
use famulus_test_database::{Database, server};
use famulus_tools::fake::plugins::{FakeManaged, FakeSandboxes, Play, plugin, result};
use famulus_viewers::Hub;
use futures::FutureExt as _;
use reqwest::{Client, Method, RequestBuilder};
use sha2::{Digest as _, Sha256};
use std::{
    net::SocketAddr,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};

pub(crate) const OWNER: &str = "the-owners-token";
pub(crate) const CHAT: &str = "a-members-token";

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) hub: Arc<Hub>,
    pub(crate) owner: Person,
    pub(crate) address: SocketAddr,
    pub(crate) internal: SocketAddr,
    pub(crate) callback: SocketAddr,
    /// Takes doors in.
    pub(crate) doors: mpsc::Sender<Door>,
    pub(crate) canary: SocketAddr,
    pub(crate) sandboxes: Arc<FakeSandboxes>,
    pub(crate) managed: Arc<FakeManaged>,
    pub(crate) client: Client,
    pub(crate) tasks: Tasks,
}

/// Runs a test against a server with this configuration.
pub(crate) async fn with_server<T: AsyncFnOnce(&World)>(config: Config, test: T) {
    let database = Database::migrated(&server()).await.unwrap();
    let world = World::open(&database.url, config).await;
    let outcome = AssertUnwindSafe(test(&world)).catch_unwind().await;
    let World { tasks, store, .. } = world;
    let _drained = tasks.drain(Duration::from_secs(5)).await;
    store.close().await;
    database.drop().await.unwrap();
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

impl World {
    async fn open(url: &str, config: Config) -> Self {
        let tasks = Tasks::new();
        let connect = Connect { durable_sessions: 4, relaxed_sessions: 3, ..Connect::new(url) };
        let (store, background) = Store::connect(connect, tasks.token()).await.unwrap();
        for (name, task) in background.tasks {
            tasks.spawn(name, OnExit::Log, task);
        }
        let (owner, _) = store.ensure_owner("Ada", "Europe/Berlin").await.unwrap();
        let new = NewPerson {
            name: "Bob".into(),
            role: Role::Member,
            time_zone: "UTC".into(),
            language: "en".into(),
        };
        let member = store.create_person(new).await.unwrap();
        for (person, scope, token) in
            [(owner.id, Scope::Owner, OWNER), (member.id, Scope::Chat, CHAT)]
        {
            let hash = Sha256::digest(token.as_bytes()).into();
            store.create_token(person, "test", scope, hash).await.unwrap();
        }
        let hub = Hub::new(config.viewer_limit);
        let follow = Arc::clone(&hub).follow(
            Arc::new(store.clone()),
            store.hints.subscribe(Topic::Event),
            tasks.token(),
        );
        tasks.spawn("viewers", OnExit::Log, follow);
        let readiness = Readiness::new();
        readiness.started();
        let sandboxes = FakeSandboxes::new(vec![plugin("weather", &["look"])], |call| {
            if call.parameters["later"] == true {
                return Play::Later;
            }
            Play::End(result(RunOutput::Json(call.parameters.to_string())))
        });
        let managed = Arc::<FakeManaged>::default();
        let api = Api {
            sandboxes: sandboxes.clone(),
            runners: Arc::new(FakeRunners { store: store.clone() }),
            managed: managed.clone(),
            plugin_tokens: 250,
            store: store.clone(),
            reception: Reception {
                desk: Arc::new(store.clone()),
                viewers: hub.clone(),
                clock: Arc::new(SystemClock),
                managed: Arc::new(famulus_core::plugin::Unmanaged("they are fake")),
            },
            hub: Arc::clone(&hub),
            config,
            readiness,
            metrics: Arc::new(|| "up 1\n".to_owned()),
            catalogue: vec![Grantable { tool: "get_time".into(), actions: Vec::new() }],
            clock: Arc::new(SystemClock),
            configured: watch::channel(Configured {
                model: "demo".into(),
                ..Configured::default()
            })
            .1,
            hearing: vec!["telegram".into()],
            linkers: std::collections::BTreeMap::new(),
            backups: watch::channel(None).1,
            started: SystemClock.now(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, internal) = (listener.local_addr().unwrap(), inner.local_addr().unwrap());
        let back = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (door, doors) = mpsc::channel(1);
        let bird = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (callback, canary) = (back.local_addr().unwrap(), bird.local_addr().unwrap());
        tasks.spawn("canary", OnExit::Log, famulus_api::canary(bird, tasks.token()));
        let listeners = Listeners {
            public: listener,
            internal: inner,
            callback: Some(back),
            doors: Some(doors),
        };
        let serving = api.serve(listeners, tasks.token());
        tasks.spawn("api", OnExit::Log, async move { serving.await.unwrap() });
        let client = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        Self {
            store,
            hub,
            owner,
            address,
            internal,
            callback,
            doors: door,
            canary,
            sandboxes,
            managed,
            client,
            tasks,
        }
    }

    pub(crate) fn call(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address)).bearer_auth(token)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.call(OWNER, Method::GET, path)
    }

    pub(crate) fn post(&self, path: &str, body: &serde_json::Value) -> RequestBuilder {
        self.call(OWNER, Method::POST, path).json(body)
    }

    /// Works the next turn as another process would: its end is only in the record.
    pub(crate) async fn work(&self, text: &str) -> TurnId {
        let lease = loop {
            let mut leases = self.store.queue.claim(Class::Turn, 1).await.unwrap();
            if let Some(lease) = leases.pop() {
                break lease;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let turn = TurnId(lease.job.id);
        self.store.take_up(&lease.fence, turn).await.unwrap();
        let ending = Ending {
            turn,
            state: TurnState::Complete,
            message: Some(NewMessage {
                id: MessageId::new(),
                parts: vec![Part::assistant_text(text)],
                blocks: None,
            }),
            model: Some("demo".into()),
            usage: Usage::default(),
            steps: 1,
            error: None,
            reply: None,
            delivering: Vec::new(),
            shown: EventId::START,
            events: Vec::new(),
            complete: Arc::new(Envelope {
                v: VERSION,
                id: EventId { fence: lease.fence.token, number: 1 },
                conversation: ConversationId(lease.fence.lane),
                at: SystemClock.now(),
                event: Event::Complete {
                    turn,
                    state: TurnState::Complete,
                    message: None,
                    text: text.to_owned(),
                },
            }),
        };
        self.store.finish(&lease.fence, ending).await.unwrap();
        turn
    }
}
