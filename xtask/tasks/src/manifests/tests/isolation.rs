//! The locks around the sandbox: policies that are there before any Pod, and who may make Pods.

use serde_json::{Value, json};

use super::{CASES, Case, called, kind, list, namespace, objects, one, pod_labels, release, text};

/// What `Internet` never means. The issue of each range is in RFC 6890 and its registry.
const DENIED: [&str; 14] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

fn policy<'a>(objects: &'a [Value], place: &str, name: &str) -> &'a Value {
    let found: Vec<&Value> = objects
        .iter()
        .filter(|object| kind(object) == "NetworkPolicy" && namespace(object) == place)
        .filter(|object| super::name(object) == name)
        .collect();
    assert_eq!(found.len(), 1, "{place} {name}");
    &found[0]["spec"]
}

#[test]
fn nothing_goes_in_or_out_by_default() {
    let objects = objects(&CASES[0]);
    let sandbox = policy(&objects, "assistant-sandbox", "home-default-deny");
    assert_eq!(*sandbox, json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
    let system = policy(&objects, "assistant", "home-default-deny");
    assert_eq!(system["policyTypes"], json!(["Ingress", "Egress"]));
    assert!(system.get("ingress").is_none() && system.get("egress").is_none());
    let ours = json!({"app.kubernetes.io/name": "famulus", "app.kubernetes.io/instance": "home"});
    assert_eq!(system["podSelector"]["matchLabels"], ours);
}

/// What its component may, and nothing beside: a Pod that no policy opens anything to is closed.
#[test]
fn each_pod_is_selected_by_the_policy_of_its_component() {
    for case in &CASES {
        let objects = objects(case);
        let policies = || {
            let policies = objects.iter().filter(|object| kind(object) == "NetworkPolicy");
            policies.filter(|policy| namespace(policy) == "assistant")
        };
        for object in &objects {
            let Some(labels) = pod_labels(object) else { continue };
            let called = called(case, object);
            assert_eq!(namespace(object), "assistant", "{called}");
            let component = text(labels, "/app.kubernetes.io~1component");
            match kind(object) {
                "CronJob" => assert_eq!(component, "backup", "{called}"),
                "Job" if super::name(object).starts_with("home-restore-") => {
                    assert_eq!(component, "restore", "{called}");
                }
                _ => {}
            }
            let selects = |policy: &&Value| {
                let selector = policy.pointer("/spec/podSelector/matchLabels").unwrap();
                let mut wanted = selector.as_object().unwrap().iter();
                wanted.all(|(label, value)| labels[label] == *value)
            };
            let selected: Vec<&str> = policies().filter(selects).map(super::name).collect();
            assert_eq!(selected, ["home-default-deny", &format!("home-{component}")], "{called}");
        }
        for component in ["backup", "restore"] {
            let mut labels = objects.iter().filter_map(pod_labels);
            let policy = format!("home-{component}");
            assert_eq!(
                policies().any(|object| super::name(object) == policy),
                labels.any(|labels| labels["app.kubernetes.io/component"] == component),
                "{}: {policy}",
                case.name
            );
        }
    }
}

/// As policies name the Pods of a component.
fn component(name: &str) -> Value {
    json!({"matchLabels": {
        "app.kubernetes.io/name": "famulus",
        "app.kubernetes.io/instance": "home",
        "app.kubernetes.io/component": name,
    }})
}

#[test]
fn backups_reach_names_the_api_server_the_database_runners_and_the_store_alone() {
    let tcp = |port: u16| json!({"protocol": "TCP", "port": port});
    let check = |case: &Case, names: &[&str], database: &Value, store: Option<u16>| {
        let objects = objects(case);
        for name in names {
            let policy = policy(&objects, "assistant", &format!("home-{name}"));
            let mut egress = vec![
                json!({"ports": [{"protocol": "UDP", "port": 53}, tcp(53)]}),
                json!({"ports": [tcp(443), tcp(6443)]}),
                database.clone(),
                json!({"ports": [tcp(8090)], "to": [{
                    "namespaceSelector":
                        {"matchLabels": {"kubernetes.io/metadata.name": "assistant-sandbox"}},
                    "podSelector": {"matchLabels": {"famulus.dev/part": "runner"}},
                }]}),
            ];
            let has_daemon = objects.iter().any(|it| super::name(it) == "home-signal");
            egress.extend(has_daemon.then(
                || json!({"ports": [tcp(8082)], "to": [{"podSelector": component("signal")}]}),
            ));
            egress.extend(store.map(|port| json!({"ports": [tcp(port)]})));
            let expected = json!({
                "podSelector": component(name),
                "policyTypes": ["Egress"],
                "egress": egress,
            });
            assert_eq!(*policy, expected, "{}: {name}", case.name);
        }
    };
    let ours = json!({"ports": [tcp(5432)], "to": [{"podSelector": component("postgres")}]});
    let own = json!({"ports": [tcp(6432)]});
    let [defaults, _, _, _, _, everything, restored, own_backups] = &CASES;
    check(defaults, &["backup"], &ours, None);
    check(everything, &["backup"], &ours, Some(9000));
    check(restored, &["backup", "restore"], &ours, Some(443));
    check(own_backups, &["backup"], &own, None);
}

/// What a runner answers to whom, its bearers say.
#[test]
fn runners_let_in_the_app_and_who_backs_them_up_alone() {
    let check = |objects: &[Value], components: &[&str]| {
        let policy = policy(objects, "assistant-sandbox", "home-runner");
        let system = json!({"matchLabels": {"kubernetes.io/metadata.name": "assistant"}});
        let peer =
            |name: &&str| json!({"namespaceSelector": system, "podSelector": component(name)});
        let from: Vec<Value> = components.iter().map(peer).collect();
        let expected = json!({
            "podSelector": {"matchLabels": {"famulus.dev/part": "runner"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": 8090}], "from": from}],
        });
        assert_eq!(*policy, expected);
    };
    check(&objects(&CASES[0]), &["app", "backup"]);
    check(&objects(&CASES[6]), &["app", "backup", "restore"]);
    check(&release("home", "assistant", &["--set", "backup.enabled=false"]), &["app"]);
}

#[test]
fn postgres_lets_in_the_app_the_migration_and_who_backs_it_up_alone() {
    let check = |objects: &[Value], components: &[&str]| {
        let policy = policy(objects, "assistant", "home-postgres");
        let from: Vec<Value> =
            components.iter().map(|name| json!({"podSelector": component(name)})).collect();
        let expected = json!({
            "podSelector": component("postgres"),
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": 5432}], "from": from}],
        });
        assert_eq!(*policy, expected);
    };
    let [defaults, _, _, _, _, everything, restored, _] = &CASES;
    check(&objects(defaults), &["app", "migrate", "backup"]);
    check(&objects(everything), &["app", "migrate", "backup"]);
    check(&objects(restored), &["app", "migrate", "backup", "restore"]);
    let without = release("home", "assistant", &["--set", "backup.enabled=false"]);
    check(&without, &["app", "migrate"]);
}

/// It asks nobody who they are.
#[test]
fn the_daemon_of_signal_lets_in_the_app_alone_and_reaches_the_public_network_alone() {
    let objects = objects(&CASES[5]);
    let daemon = policy(&objects, "assistant", "home-signal");
    let port = json!([{"protocol": "TCP", "port": 8080}]);
    assert_eq!(
        daemon["ingress"],
        json!([
            {"ports": port, "from": [{"podSelector": component("app")}]},
            // Beside it, and with a key.
            {"ports": [{"protocol": "TCP", "port": 8082}],
                "from": [{"podSelector": component("backup")}]},
        ])
    );
    let [names, servers] = list(daemon, "/egress") else { panic!("{daemon}") };
    assert!(names.get("to").is_none() && names["ports"][0]["port"] == 53, "{names}");
    assert_eq!(servers["ports"], json!([{"protocol": "TCP", "port": 443}]));
    let except = list(servers, "/to/0/ipBlock/except");
    assert!(DENIED.iter().all(|range| except.contains(&json!(range))), "{servers}");
    let app = policy(&objects, "assistant", "home-app");
    let to = json!({"ports": port, "to": [{"podSelector": component("signal")}]});
    assert!(list(app, "/egress").contains(&to), "{app}");
}

#[test]
fn the_sandbox_is_left_for_the_internet_the_resolver_and_the_callback_alone() {
    let objects = objects(&CASES[0]);
    let leaving: Vec<&str> = objects
        .iter()
        .filter(|object| kind(object) == "NetworkPolicy")
        .filter(|object| namespace(object) == "assistant-sandbox")
        .filter(|object| object["spec"].get("egress").is_some())
        .map(super::name)
        .collect();
    assert_eq!(leaving, ["home-callback", "home-internet"]);

    let internet = policy(&objects, "assistant-sandbox", "home-internet");
    assert_eq!(internet["podSelector"], json!({"matchLabels": {"famulus.dev/egress": "internet"}}));
    let [public, resolver] = list(internet, "/egress") else { panic!("{internet}") };
    assert_eq!(*public, json!({"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": DENIED}}]}));
    assert_eq!(list(resolver, "/to").len(), 1);
    let peer = &resolver["to"][0];
    assert_eq!(peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"], "resolver");
    assert_eq!(
        peer["namespaceSelector"]["matchLabels"],
        json!({"kubernetes.io/metadata.name": "assistant"})
    );

    let callback = policy(&objects, "assistant-sandbox", "home-callback");
    assert_eq!(
        callback["podSelector"],
        json!({"matchLabels": {"famulus.dev/callback": "allowed"}})
    );
    assert_eq!(list(callback, "/egress").len(), 1);
    assert_eq!(callback["egress"][0]["ports"], json!([{"protocol": "TCP", "port": 3002}]));
    let peer = &callback["egress"][0]["to"][0];
    assert_eq!(peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"], "app");
}

/// Two conditions in one peer, for two peers would let in whoever meets either.
#[test]
fn the_callback_port_wants_the_namespace_and_the_label() {
    for case in &CASES {
        let objects = objects(case);
        let app = policy(&objects, "assistant", "home-app");
        let rules: Vec<&Value> = list(app, "/ingress")
            .iter()
            .filter(|rule| rule["ports"].to_string().contains("3002"))
            .collect();
        assert_eq!(rules.len(), 1, "{}", case.name);
        assert_eq!(rules[0]["ports"], json!([{"protocol": "TCP", "port": 3002}]));
        let sandbox = if case.name.contains("other names") { "cage" } else { "assistant-sandbox" };
        assert_eq!(
            rules[0]["from"],
            json!([{
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": sandbox}},
                "podSelector": {"matchLabels": {"famulus.dev/callback": "allowed"}},
            }])
        );
    }
}

/// The canary proves something only while its own side is open to all.
#[test]
fn the_canary_is_open_to_all_and_no_sandbox_may_reach_it() {
    for case in &CASES {
        let objects = objects(case);
        let app = policy(&objects, "assistant", "home-app");
        let open = json!({"ports": [{"protocol": "TCP", "port": 3003}]});
        assert!(list(app, "/ingress").contains(&open), "{}", case.name);
        for object in objects.iter().filter(|object| namespace(object) != "assistant") {
            if kind(object) == "NetworkPolicy" {
                assert!(!object.to_string().contains("3003"), "{}", super::name(object));
            }
        }
    }
}

#[test]
fn the_app_s_port_is_closed_to_the_sandbox() {
    let objects = objects(&CASES[0]);
    let app = policy(&objects, "assistant", "home-app");
    let rule = &list(app, "/ingress")[0];
    assert_eq!(rule["ports"], json!([{"protocol": "TCP", "port": 3000}]));
    assert_eq!(
        rule["from"][0]["namespaceSelector"]["matchExpressions"],
        json!([{
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["assistant-sandbox"],
        }])
    );
}

#[test]
fn values_add_ranges_hosts_and_servers() {
    let objects = objects(&CASES[5]);
    let internet = policy(&objects, "assistant-sandbox", "home-internet");
    let except = list(internet, "/egress/0/to/0/ipBlock/except");
    assert!(except.contains(&json!("203.0.113.9/32")));
    let build = policy(&objects, "assistant-sandbox", "home-build");
    // An init script that reaches what the tools reach does not reach these.
    let selected = json!({"famulus.dev/part": "build", "famulus.dev/egress": "internet"});
    assert_eq!(build["podSelector"], json!({ "matchLabels": selected }));
    assert_eq!(
        build["egress"],
        json!([{
            "ports": [{"protocol": "TCP", "port": 443}],
            "to": [{"ipBlock": {"cidr": "192.168.1.20/32"}}],
        }])
    );
    let resolver = policy(&objects, "assistant", "home-resolver");
    let servers: Vec<(&Value, &Value)> = list(resolver, "/egress")[1..]
        .iter()
        .map(|rule| (&rule["to"][0]["ipBlock"]["cidr"], &rule["ports"][0]["port"]))
        .collect();
    assert_eq!(
        servers,
        [(&json!("192.168.1.1/32"), &json!(5353)), (&json!("9.9.9.9/32"), &json!(53))]
    );
    let config = one(&objects, "ConfigMap", "home-resolver");
    let config = text(config, "/data/unbound.conf");
    for line in [
        "local-zone: \"cluster.local.\" always_refuse",
        "private-address: 10.0.0.0/8",
        "ip-ratelimit: 100",
        "ip-ratelimit-factor: 0",
        "private-address: 203.0.113.9/32",
        "forward-addr: 192.168.1.1@5353",
        "local-data: \"git.home.example. IN A 192.168.1.20\"",
    ] {
        assert!(config.contains(line), "{line} is not in {config}");
    }
    let app = policy(&objects, "assistant", "home-app");
    for port in ["11434", "8081", "4318"] {
        assert!(app["egress"].to_string().contains(port), "{port} is closed");
    }
}

/// Who holds all connections that plugins may have lets no probe fail.
#[test]
fn the_resolver_is_probed_at_a_port_that_no_policy_opens() {
    for case in &CASES {
        let objects = objects(case);
        let resolver = one(&objects, "Deployment", "home-resolver");
        let container = &resolver["spec"]["template"]["spec"]["containers"][0];
        let probes = ["readinessProbe", "livenessProbe"];
        let probed = probes.map(|probe| text(container, &format!("/{probe}/tcpSocket/port")));
        let port_of = |name: &str| {
            let named = |port: &&Value| port["name"] == name;
            list(container, "/ports").iter().find(named).unwrap()["containerPort"].to_string()
        };
        let [ready, alive] = probed.map(port_of);
        assert_eq!(ready, alive, "{}", case.name);
        let config = text(one(&objects, "ConfigMap", "home-resolver"), "/data/unbound.conf");
        assert!(config.contains(&format!("interface: 0.0.0.0@{ready}\n")), "{config}");
        for object in objects.iter().filter(|object| kind(object) == "NetworkPolicy") {
            assert!(!object.to_string().contains(&ready), "{}", super::name(object));
        }
    }
}

/// Templates, too: who may write one makes Pods.
#[test]
fn only_the_operator_and_the_controllers_behind_it_make_pods() {
    let check = |args: &[&str], users: &str, groups: &str| {
        let objects = release("home", "assistant", args);
        let lock = one(&objects, "ValidatingAdmissionPolicy", "assistant.home.sandbox-lock");
        let spec = &lock["spec"];
        assert_eq!(spec["failurePolicy"], "Fail");
        let variables = list(spec, "/variables");
        let variable = |name: &str| {
            let found = variables.iter().find(|variable| variable["name"] == name);
            text(found.unwrap(), "/expression").to_owned()
        };
        assert_eq!(variable("users"), users);
        assert_eq!(variable("groups"), groups);
        let guarded: Vec<&Value> = list(spec, "/matchConstraints/resourceRules")
            .iter()
            .flat_map(|rule| list(rule, "/resources"))
            .collect();
        assert_eq!(
            guarded,
            [
                "pods",
                "pods/status",
                "pods/ephemeralcontainers",
                "pods/resize",
                "replicationcontrollers",
                "podtemplates",
                "deployments",
                "replicasets",
                "statefulsets",
                "daemonsets",
                "jobs",
                "cronjobs",
            ]
        );
        let binding =
            one(&objects, "ValidatingAdmissionPolicyBinding", "assistant.home.sandbox-lock");
        assert_eq!(binding["spec"]["policyName"], lock["metadata"]["name"]);
        assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
    };
    let operator = "system:serviceaccount:assistant:home-operator";
    let manager = "system:kube-controller-manager";
    check(&[], &format!(r#"["{operator}","{manager}"]"#), "[]");
    check(super::EVERYTHING, &format!(r#"["{operator}","{manager}","ada"]"#), r#"["admins"]"#);
}
