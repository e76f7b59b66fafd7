//! Values that cannot be meant are refused in words that name them.

use super::helm;

fn check(args: &[&str], expected: &str) {
    let error = helm().render("home", "assistant", args).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains(expected), "{args:?} says {error}");
}

#[test]
fn an_unknown_key_is_refused_by_its_name() {
    check(&["--set", "colour=red"], "additional properties 'colour' not allowed");
    let nested = [
        ("app.replica=2", "at '/app': additional properties 'replica' not allowed"),
        ("postgres.persistence.clas=x", "at '/postgres/persistence'"),
        ("network.buildHosts[0].address=x", "at '/network/buildHosts/0'"),
        ("plugins.resources.limit.cpu=1", "at '/plugins/resources'"),
        ("image.runner.flavor=slim", "at '/image/runner'"),
        ("backup.s3.buket=b", "at '/backup/s3'"),
        ("restore.to=x", "at '/restore'"),
    ];
    for (value, expected) in nested {
        check(&["--set", value], expected);
    }
}

#[test]
fn a_value_of_the_wrong_form_is_refused() {
    let table = [
        ("image.app.digest=latest", "at '/image/app/digest'"),
        ("network.deniedRanges={::/0}", "at '/network/deniedRanges/0'"),
        ("plugins.userNamespaces=yes", "at '/plugins/userNamespaces'"),
        ("app.service.port=0", "at '/app/service/port'"),
        ("app.model.baseUrl=http://me:secret@host/v1", "at '/app/model/baseUrl'"),
        ("app.telegram.baseUrl=http://me:secret@host", "at '/app/telegram/baseUrl'"),
        ("app.signal.url=http://me:secret@host", "at '/app/signal/url'"),
        ("app.signal.account=ada", "at '/app/signal/account'"),
        ("signal.uid=0", "at '/signal/uid'"),
        ("plugins.packages.python=https://me:secret@host/simple/", "at '/plugins/packages/python'"),
        ("plugins.packages.npm=npm.example", "at '/plugins/packages/npm'"),
        ("resolver.forwardTo={dns.example}", "at '/resolver/forwardTo/0'"),
        ("sandbox.namespace=a.b", "at '/sandbox/namespace'"),
        ("backup.schedule=daily", "at '/backup/schedule'"),
        ("backup.verify.schedule=TZ=Asia/Tokyo 17 4 * * 0", "at '/backup/verify/schedule'"),
        ("backup.s3.endpoint=https://me:secret@host", "at '/backup/s3/endpoint'"),
        ("restore.from=latest,restore.at=yesterday", "at '/restore/at'"),
    ];
    for (value, expected) in table {
        check(&["--set", value], expected);
    }
}

#[test]
fn values_that_contradict_each_other_are_refused_with_a_remedy() {
    let table = [
        ("sandbox.namespace=assistant", "leave it empty or name another"),
        ("plugins.uids.first=65534", "write them the other way round"),
        ("plugins.uids.last=65536", "choose a smaller range"),
        ("app.ingress.enabled=true", "name the host"),
        ("app.model.baseUrl=http://host/v1", "name the model"),
        ("signal.image=x,app.signal.url=http://y:8080", "leave app.signal.url empty"),
        ("priorityClass.create=true,priorityClass.name=x", "set one of them"),
        ("backup.recipient=x", "no public key of age"),
        ("backup.s3.bucket=b", "access-key-id"),
        ("backup.s3.endpoint=https://x", "name the bucket"),
        (
            "backup.s3.bucket=b,backup.s3.existingSecret=s3,backup.persistence.existingClaim=c",
            "two places for backups",
        ),
        ("restore.from=latest", "nothing says where the backup is"),
        (
            "restore.from=latest,backup.persistence.existingClaim=c,hooks.enabled=false",
            "takes Helm's hooks",
        ),
        // Who takes no backup may restore one.
        ("restore.from=latest,backup.s3.bucket=b,backup.enabled=false", "access-key-id"),
    ];
    for (value, expected) in table {
        check(&["--set", value], expected);
    }
    let error = helm().render("home.two", "assistant", &[]).unwrap_err();
    assert!(format!("{error:#}").contains("the release's name \"home.two\""), "{error:#}");
}

/// Every folder of the schema is closed, so that a new value cannot forget to be.
#[test]
fn every_object_of_the_schema_is_closed() {
    fn open(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
        let Some(fields) = value.as_object() else { return };
        if fields.contains_key("properties")
            && fields.get("additionalProperties") != Some(&false.into())
        {
            found.push(path.to_owned());
        }
        for (name, field) in fields {
            open(field, &format!("{path}/{name}"), found);
        }
    }
    for chart in ["famulus", "famulus-crds"] {
        let path =
            xtask_shell::workspace::root().join("charts").join(chart).join("values.schema.json");
        let schema = std::fs::read_to_string(path).unwrap();
        let mut found = Vec::new();
        open(&serde_json::from_str(&schema).unwrap(), "", &mut found);
        assert_eq!(found, Vec::<String>::new(), "{chart}");
    }
}
