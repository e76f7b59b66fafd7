//! What no object of a plugin may have, whatever was asked for. It reads the objects as the API server
//! would, and knows nothing of how they are made.

use serde_json::Value;

/// The Plugin whose objects they are, and what the installation lets them have.
pub(crate) struct Bounds<'a> {
    pub(crate) plugin: &'a Value,
    pub(crate) namespace: &'a str,
    pub(crate) image: &'a str,
    /// Kinds and names of what belongs to the Plugin.
    pub(crate) own: &'a [(String, String)],
}

/// Everything that is wrong with an object.
pub(crate) fn violations(object: &Value, bounds: &Bounds<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            wrong.push(format!("{} {}: {what}", object["kind"], object["metadata"]["name"]));
        }
    };
    let metadata = &object["metadata"];
    must(metadata["namespace"] == bounds.namespace, "is in another namespace");
    let owners = metadata["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    let plugin = &bounds.plugin["metadata"];
    let is_own = |owner: &Value| owner["kind"] == "Plugin" && owner["uid"] == plugin["uid"];
    must(matches!(owners, [owner] if is_own(owner)), "belongs to something else");
    // The cluster itself holds a claim back while a Pod uses it.
    let held = ["null", "[\"kubernetes.io/pvc-protection\"]"];
    must(held.contains(&metadata["finalizers"].to_string().as_str()), "has a finalizer");
    match object["kind"].as_str().unwrap() {
        "ServiceAccount" => {
            must(object["automountServiceAccountToken"] == false, "gives away its token");
            must(object["secrets"].is_null(), "names Secrets");
        }
        "Secret" => must(object["type"] == "Opaque", "is a Secret of another type"),
        "PersistentVolumeClaim" => {
            // Whoever binds it says so.
            let is_bound = !metadata["annotations"]["pv.kubernetes.io/bind-completed"].is_null();
            must(is_bound || object["spec"]["volumeName"].is_null(), "names a volume");
            must(object["spec"]["dataSource"].is_null(), "is a copy");
        }
        "Deployment" | "Job" => {
            let template = &object["spec"]["template"];
            for what in pod(template, bounds) {
                must(false, &what);
            }
        }
        _ => must(false, "is of a kind that no plugin has"),
    }
    wrong
}

/// The same of a Pod, or of the template of one.
pub(crate) fn pod(template: &Value, bounds: &Bounds<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    let spec = &template["spec"];
    const NEVER: [&str; 12] = [
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "shareProcessNamespace",
        "hostAliases",
        "hostname",
        "ephemeralContainers",
        "schedulingGates",
        "resourceClaims",
        "overhead",
        "subdomain",
        "setHostnameAsFQDN",
    ];
    for field in NEVER {
        must(spec[field].is_null(), format!("has {field}"));
    }
    must(spec["hostUsers"] != true, "asks for the host's users".to_owned());
    must(spec["automountServiceAccountToken"] == false, "has a token".to_owned());
    let account = spec["serviceAccountName"].as_str().unwrap_or_default();
    must(has(bounds.own, "ServiceAccount", account), format!("works as {account:?}"));
    must(spec["dnsPolicy"] == "None", "asks the cluster's names".to_owned());
    let class = &spec["runtimeClassName"];
    let asked = &bounds.plugin["spec"]["runner"]["runtimeClassName"];
    must(class == asked, format!("runs as {class} where {asked} was asked for"));
    let egress = &template["metadata"]["labels"]["famulus.dev/egress"];
    let part = &template["metadata"]["labels"]["famulus.dev/part"];
    let mode = bounds.plugin["spec"]["egress"]["mode"].as_str().unwrap_or("None");
    let mut containers = spec["containers"].as_array().into_iter().flatten();
    let runs_init = containers.any(|container| container["name"] == "build");
    let is_apart = bounds.plugin["spec"]["egress"]["init"] == "AsTools";
    let of_tools = &mode.to_lowercase();
    let reach = match part.as_str() {
        Some("build") if runs_init && is_apart => of_tools,
        Some("build") => "internet",
        _ => of_tools,
    };
    must(egress == reach, format!("reaches {egress} as {part} where {mode} was asked for"));
    for label in template["metadata"]["labels"].as_object().into_iter().flat_map(|all| all.keys()) {
        let known = label.starts_with("famulus.dev/")
            || label == "app.kubernetes.io/managed-by"
            || label.starts_with("batch.kubernetes.io/")
            || ["controller-uid", "job-name", "pod-template-hash"].contains(&label.as_str());
        must(known, format!("has the label {label}"));
    }
    let security = &spec["securityContext"];
    let user = security["runAsUser"].as_i64().unwrap_or_default();
    must((20_000..=65_533).contains(&user), format!("runs as the user {user}"));
    for field in ["runAsGroup", "fsGroup"] {
        must(security[field] == user, format!("has another {field}"));
    }
    must(security["runAsNonRoot"] == true, "may run as root".to_owned());
    must(security["seccompProfile"]["type"] == "RuntimeDefault", "has no filter".to_owned());
    for field in ["sysctls", "supplementalGroups", "seLinuxOptions", "appArmorProfile"] {
        must(security[field].is_null(), format!("has {field}"));
    }
    let volumes = spec["volumes"].as_array().unwrap();
    for volume in volumes {
        wrong.extend(of_volume(volume, bounds));
    }
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            wrong.extend(of_container(container, bounds.image));
        }
    }
    wrong
}

fn of_volume(volume: &Value, bounds: &Bounds<'_>) -> Option<String> {
    let name = &volume["name"];
    let fields = volume.as_object().unwrap().keys().filter(|key| *key != "name");
    let [kind] = fields.collect::<Vec<_>>()[..] else { return Some(format!("{name} is two")) };
    let text = |key: &str| volume[kind][key].as_str().unwrap_or_default();
    let allowed = match kind.as_str() {
        "emptyDir" => volume[kind]["sizeLimit"].is_string(),
        "secret" => has(bounds.own, "Secret", text("secretName")),
        "persistentVolumeClaim" => has(bounds.own, "PersistentVolumeClaim", text("claimName")),
        _ => false,
    };
    (!allowed).then(|| format!("has the volume {volume}"))
}

fn of_container(container: &Value, image: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = &container["name"];
    let mut must = |holds: bool, what: &str| {
        if !holds {
            wrong.push(format!("{name}: {what}"));
        }
    };
    must(container["image"] == image, "is another image");
    must(container["command"][0] == "/usr/local/bin/famulus-runner", "is another program");
    must(container["args"].is_null(), "has arguments");
    // Its own program, which waits until the runner listens.
    let own = ["/usr/local/bin/famulus-runner", "await"];
    let waits = serde_json::json!({"preStop": {"exec": {"command": own}}});
    let lifecycle = &container["lifecycle"];
    must(lifecycle.is_null() || *lifecycle == waits, "has a lifecycle of another kind");
    for field in ["volumeDevices", "envFrom", "stdin", "tty"] {
        must(container[field].is_null(), &format!("has {field}"));
    }
    let security = &container["securityContext"];
    must(security["privileged"] != true, "is privileged");
    must(security["allowPrivilegeEscalation"] == false, "may gain privileges");
    must(security["readOnlyRootFilesystem"] == true, "writes to its root");
    must(security["capabilities"]["drop"] == serde_json::json!(["ALL"]), "keeps capabilities");
    for field in ["seccompProfile", "procMount", "seLinuxOptions", "appArmorProfile"] {
        must(security[field].is_null(), &format!("has {field}"));
    }
    must(security["capabilities"]["add"].is_null(), "has capabilities");
    for field in ["runAsUser", "runAsGroup"] {
        must(security[field].is_null(), &format!("has {field} of its own"));
    }
    for variable in container["env"].as_array().into_iter().flatten() {
        let known = variable["name"].as_str().is_some_and(|it| it.starts_with("FAMULUS_RUNNER_"));
        // The address of the node that it runs on, and nothing else of the cluster.
        let mut from = variable["valueFrom"].clone();
        if from["fieldRef"]["apiVersion"] == "v1" {
            // An API server says which version it took it for.
            from["fieldRef"].as_object_mut().map(|field| field.remove("apiVersion"));
        }
        let node = serde_json::json!({"fieldRef": {"fieldPath": "status.hostIP"}});
        must(known && (from.is_null() || from == node), "has a variable of another kind");
    }
    for port in container["ports"].as_array().into_iter().flatten() {
        must(port["hostPort"].is_null() && port["hostIP"].is_null(), "has a port of the node");
    }
    for mount in container["volumeMounts"].as_array().into_iter().flatten() {
        must(mount["mountPropagation"].is_null(), "shares mounts");
    }
    for amount in ["memory", "ephemeral-storage"] {
        must(!container["resources"]["limits"][amount].is_null(), "has no limit");
    }
    must(!container["resources"]["requests"]["cpu"].is_null(), "has no share of the processors");
    wrong
}

fn has(own: &[(String, String)], kind: &str, name: &str) -> bool {
    own.iter().any(|(a, b)| a == kind && b == name)
}
