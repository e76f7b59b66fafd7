//! Plugins that nobody would write: each field is now plain, now hostile, the same ones in every run.

use serde_json::{Value, json};

/// The `number`th of them.
pub(crate) fn plugin(number: u64) -> Value {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let name = format!("generated-{number}");
    let mut metadata = json!({"name": name});
    if dice.one_in(12) {
        metadata["name"] = dice.of(&odd_names());
    }
    if dice.one_in(4) {
        metadata["labels"] = dice.of(&labels());
    }
    if dice.one_in(4) {
        metadata["annotations"] = dice.of(&annotations());
    }
    let mut spec = json!({"name": name, "source": source(&mut dice, &name)});
    if dice.one_in(12) {
        spec["name"] = dice.of(&odd_names());
    }
    for (field, plain, hostile) in fields() {
        if dice.one_in(2) {
            spec[field] = dice.of(&plain);
        } else if dice.one_in(10) {
            spec[field] = dice.of(&hostile);
        }
    }
    if dice.one_in(10) {
        let (field, value) = dice.of_pairs(&foreign_fields());
        spec[field.as_str()] = value;
    }
    json!({
        "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin", "metadata": metadata, "spec": spec,
    })
}

/// Numbers by xorshift.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.throw(sides) == 0
    }

    fn of(&mut self, values: &[Value]) -> Value {
        values[self.throw(values.len())].clone()
    }

    fn of_pairs(&mut self, pairs: &[(String, Value)]) -> (String, Value) {
        pairs[self.throw(pairs.len())].clone()
    }
}

fn odd_names() -> Vec<Value> {
    vec![
        json!("a"),
        json!("-"),
        json!("a".repeat(63)),
        json!("a".repeat(64)),
        json!(format!("long.{}", "name.".repeat(40) + "end")),
        json!("weather.tools.example"),
        json!("Weather"),
        json!("grüße"),
        json!("名前"),
        json!("a\u{202e}b"),
        json!("../../etc"),
        json!("a\nhostNetwork: true"),
        json!("$(id)"),
        json!("{{ .Values }}"),
        json!("x".repeat(100_000)),
        json!(""),
        json!(7),
    ]
}

fn labels() -> Vec<Value> {
    vec![
        json!({"famulus.dev/callback": "allowed", "famulus.dev/egress": "internet"}),
        json!({"app.kubernetes.io/name": "famulus", "app.kubernetes.io/component": "app"}),
        json!({"a": "b".repeat(64)}),
    ]
}

fn annotations() -> Vec<Value> {
    vec![
        json!({"famulus.dev/user": "0"}),
        json!({"famulus.dev/record": "{}", "famulus.dev/refresh": "1"}),
        json!({"container.apparmor.security.beta.kubernetes.io/runner": "unconfined"}),
        json!({"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
        json!({"famulus.dev/refresh": "x".repeat(1000)}),
        json!({"famulus.dev/refresh": "x".repeat(300_000)}),
    ]
}

fn source(dice: &mut Dice, name: &str) -> Value {
    const URLS: [&str; 17] = [
        "https://git.example/weather.git",
        "http://git.example:3000/a/b",
        "git://[2001:db8::7]/weather",
        "http://169.254.169.254/latest/meta-data",
        "https://10.96.0.1/api",
        "git@example.org:weather.git",
        "ssh://git@example.org:2222/a",
        "https://example.org/$(id)/`id`",
        "https://user:password@example.org/a",
        "file:///etc/shadow",
        "ext::sh -c id",
        "ssh://git:password@example.org/a",
        "ssh://-oProxyCommand=id/a",
        "git@-oProxyCommand=id:a",
        "git@example.org:-x",
        "--upload-pack=id",
        "https://-oProxyCommand=id/a",
    ];
    const REFS: [&str; 8] =
        ["main", "v1.2", "HEAD", "refs/heads/a", "--upload-pack=id", "a..b", "main\n", "@{-1}"];
    if dice.one_in(2) {
        // Most are plain, or hardly one would be taken.
        let url = if dice.one_in(2) { URLS[dice.throw(8)] } else { URLS[dice.throw(17)] };
        let name = if dice.one_in(2) { REFS[dice.throw(4)] } else { REFS[dice.throw(8)] };
        return json!({"git": {"url": url, "ref": name}});
    }
    let manifest = json!({"name": name, "description": "It is generated."});
    let tool = json!({
        "name": "try", "description": "It tries.", "entrypoint": "run.sh", "parameters": {},
    });
    let mut files = vec![
        json!({"path": "manifest.json", "content": manifest.to_string()}),
        json!({"path": "try/manifest.json", "content": tool.to_string()}),
        json!({"path": "try/run.sh", "content": "#!/bin/sh\nid; echo $(cat /etc/shadow)\n"}),
    ];
    if dice.one_in(4) {
        const PATHS: [&str; 6] =
            ["../../etc/passwd", "/etc/passwd", "a//b", ".git/hooks/post-checkout", "a\\b", "ä"];
        files.push(json!({"path": PATHS[dice.throw(6)], "content": "\u{0}\u{1b}[2J"}));
    }
    if dice.one_in(10) {
        files.push(json!({"path": "large", "content": "x".repeat(70_000)}));
    }
    if dice.one_in(20) {
        return json!({"inline": {"files": files}, "git": {"url": URLS[0]}});
    }
    json!({"inline": {"files": files}})
}

/// A field, plain values of it, and hostile ones.
fn fields() -> Vec<(&'static str, Vec<Value>, Vec<Value>)> {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let limits = |cpu: Value, memory: Value| json!({"resources": {"limits": {"cpu": cpu, "memory": memory}}});
    vec![
        ("state", vec![json!("Persistent"), json!("Ephemeral")], vec![json!("HostPath")]),
        (
            "egress",
            vec![
                json!({"mode": "None"}),
                json!({"mode": "Internet"}),
                json!({}),
                json!({"init": "AsTools"}),
                json!({"mode": "Internet", "init": "AsTools"}),
            ],
            vec![
                json!({"mode": "Cluster"}),
                json!({"mode": "None", "hosts": ["*"]}),
                json!({"init": "Cluster"}),
            ],
        ),
        ("revision", vec![Value::Null], vec![json!(digest), json!("main"), json!("../x")]),
        (
            "configSecretRef",
            vec![json!({"name": "weather-config"}), json!({"name": "famulus-token"})],
            vec![json!({"name": "../famulus/token"}), json!({"name": "a", "namespace": "famulus"})],
        ),
        (
            "permissions",
            vec![json!({"tools": ["*"]}), json!({"tools": []}), json!({"tools": ["grüß dich"]})],
            vec![
                json!({"tools": ["a/b"]}),
                json!({"tools": vec!["x"; 300]}),
                json!({"tools": "*"}),
            ],
        ),
        (
            "runner",
            vec![
                json!({"replicas": 1}),
                json!({"replicas": 100, "idleSeconds": 1}),
                json!({"runtimeClassName": "gvisor"}),
                json!({"flavour": "Slim"}),
                json!({"flavour": "Full"}),
                json!({"runtimeClassName": "privileged"}),
                limits(json!("500m"), json!("128Mi")),
                limits(json!(64), json!("4Ti")),
                json!({"resources": {"requests": {"cpu": "1m", "memory": "1"}}}),
            ],
            vec![
                json!({"replicas": -1}),
                json!({"flavour": "evil.example/x"}),
                json!({"max": 2_000_000_000}),
                json!({"runtimeClassName": "../../host"}),
                limits(json!("1e9"), json!("-1")),
                limits(json!("0"), json!("0")),
                json!({"resources": {"requests": {"cpu": "8"}, "limits": {"cpu": "1"}}}),
                json!({"image": "evil.example/x", "securityContext": {"privileged": true}}),
                json!({"resources": {"limits": {"nvidia.com/gpu": 1}}}),
            ],
        ),
        ("suspend", vec![json!(false)], vec![json!("false"), json!(1)]),
    ]
}

/// What a Pod could have, and a Plugin has not.
fn foreign_fields() -> Vec<(String, Value)> {
    let path = json!([{"name": "host", "hostPath": {"path": "/"}}]);
    [
        ("hostNetwork", json!(true)),
        ("serviceAccountName", json!("famulus-operator")),
        ("volumes", path),
        ("securityContext", json!({"runAsUser": 0})),
        ("template", json!({"spec": {"hostPID": true}})),
        ("image", json!("evil.example/x")),
        ("nodeName", json!("node")),
    ]
    .map(|(field, value)| (field.to_owned(), value))
    .into()
}
