//! Plugins that want more than their own: other trees, records, secrets, the whole disk.

use famulus_protocol::{Kind, Landlock, Reason};
use reqwest::StatusCode;
use serde_json::json;

use crate::house::{House, MANIFEST, tool};
use crate::support::{BEARER, failure_of, json_of, text_of};
use crate::switching::{health, ready, says, serves};

/// Tries each thing and says which worked.
const ESCAPE: &str = r"#!/usr/bin/env python3
import json, os, pathlib, shutil
here = pathlib.Path.cwd().parent
trees = here.parent
volume = trees.parent
worked = []
def attempt(name, act):
    try:
        act()
        worked.append(name)
    except OSError:
        pass
record = trees / (here.name + '.json')
attempt('list the other trees', lambda: os.listdir(trees))
attempt('read a record', record.read_text)
attempt('write a record', lambda: record.write_text('{}'))
attempt('remove a record', record.unlink)
attempt('forge a revision', lambda: (trees / ('0' * 64)).mkdir())
attempt('write beside the trees', lambda: (volume / 'x').write_text('x'))
attempt('exchange the active tree', lambda: os.symlink('/etc', volume / 'active.x'))
attempt('remove the active link', (volume / 'active').unlink)
attempt('rename its own tree', lambda: here.rename(trees / 'elsewhere'))
attempt('read the mounted bearer', lambda: open('MOUNTED/..data/bearer').read())
attempt('list what is mounted', lambda: os.listdir('MOUNTED'))
attempt('list kept calls', lambda: os.listdir('KEPT'))
attempt('replace the link of the plugin', lambda: os.unlink('PLUGINS/test'))
attempt('write the report', lambda: open('REPORT', 'w'))
for name in os.listdir(here.parent) if 'list the other trees' in worked else []:
    if name != here.name:
        attempt('remove another tree', lambda: shutil.rmtree(trees / name))
print(json.dumps(worked))
";

#[tokio::test]
async fn a_tool_reaches_its_own_tree_and_no_other() {
    let house = House::new().await;
    let text = |name: &str| house.path(name).to_str().unwrap().to_owned();
    let escape = ESCAPE
        .replace("MOUNTED", &text("mounted"))
        .replace("KEPT", &text("kept"))
        .replace("PLUGINS", &text("plugins"))
        .replace("REPORT", &text("report"));
    let tool = tool("escape");
    let files = [
        ("manifest.json", MANIFEST),
        ("escape/manifest.json", tool.as_str()),
        ("escape/run", escape.as_str()),
    ];
    house.make(&[files[0], files[1], ("escape/run", "#!/bin/sh\necho another\n")]).await;
    let revision = house.make(&files).await;
    house.mount(1, Some(&revision), &json!({}), BEARER);
    let runner = house.serve(&[]);
    ready(&runner).await;
    assert_eq!(json_of(&runner.run("c1", "escape", json!({})).await), json!([]));
    let isolation = health(&runner).await.isolation.unwrap();
    assert_eq!(isolation.landlock, Landlock::Full, "without it this proves nothing");
}

#[tokio::test]
async fn an_init_script_reaches_no_more_than_a_tool() {
    let house = House::new().await;
    let manifest = r#"{"name":"test","description":"d","init":{"entrypoint":"init.sh"}}"#;
    let order = house.path("build/bearer");
    let work = house.path("work");
    let init = format!(
        "#!/bin/sh\ncat {} && echo read the bearer\necho x > {}/bundle.tar && echo wrote the bundle\n\
         ls ../ && echo listed the trees\necho x > ../x && echo wrote beside\n\
         env | cut -d= -f1 | sort | tr '\\n' ' '\n",
        order.display(),
        work.display()
    );
    house.order("test", crate::house::inline(&[("manifest.json", manifest), ("init.sh", &init)]));
    house.bundle().await;
    // The shell adds PWD itself.
    let seen = house.build().await;
    let names: Vec<&str> =
        seen.split(' ').filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
    assert_eq!(names, ["HOME", "PATH", "TMPDIR", "UV_CACHE_DIR", "UV_PYTHON_INSTALL_DIR"]);
}

#[tokio::test]
async fn what_is_put_in_the_place_of_the_configuration_is_not_written_through() {
    let house = House::new().await;
    let script = "#!/bin/sh\nrm ../config.json\nln -s \"$HOME/stolen\" ../config.json\necho done\n";
    let tool = tool("link");
    let files = [("manifest.json", MANIFEST), ("link/manifest.json", &*tool), ("link/run", script)];
    let revision = house.make(&files).await;
    house.mount(1, Some(&revision), &json!({"key": "one"}), BEARER);
    let runner = house.serve(&[]);
    ready(&runner).await;
    assert_eq!(text_of(&runner.run("c1", "link", json!({})).await), "done\n");
    house.mount(2, Some(&revision), &json!({"key": "two"}), BEARER);
    let body = json!({"tool": "link", "parameters": {}});
    let response = runner.call_with((BEARER, 2), "c2", body).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(!house.path("state/cache/home/stolen").exists());
}

#[tokio::test]
async fn an_init_script_that_fills_the_volume_is_ended_also_when_it_was_faster() {
    let fills = "dd if=/dev/zero of=filler bs=1M count=64 2>/dev/null";
    for script in [format!("{fills}; sleep 300; echo done"), format!("{fills}; echo done")] {
        let house = House::new().await;
        let manifest =
            r#"{"name":"test","description":"d","init":{"entrypoint":"init.sh","async":true}}"#;
        let script = format!("#!/bin/sh\n{script}\n");
        let files = [("manifest.json", manifest), ("init.sh", &*script)];
        house.order("test", crate::house::inline(&files));
        let (revision, _) = house.bundle().await;
        let began = tokio::time::Instant::now();
        let (reason, message) = house.build_failure(&[("STATE_BYTES", "8000000")]).await;
        assert_eq!(reason, "InitFailed", "{message}");
        let expected = "the init script init.sh was ended: the plugin's own files and caches are more \
                        than 8000000 bytes";
        assert!(message.starts_with(expected), "{message}");
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
        let hex = revision.strip_prefix("sha256:").unwrap();
        assert!(!house.path(&format!("state/revisions/{hex}")).exists(), "what it filled stays");
    }
}

#[tokio::test]
async fn who_fills_the_volume_is_ended_and_the_next_call_is_refused() {
    for (script, settings) in [
        ("dd if=/dev/zero of=../filler bs=1M count=64 2>/dev/null", ("STATE_BYTES", "8000000")),
        ("i=0; while [ $i -lt 3000 ]; do : > ../f$i; i=$((i+1)); done", ("STATE_FILES", "1000")),
        ("dd if=/dev/zero of=$HOME/fill bs=1M count=64 2>/dev/null", ("STATE_BYTES", "8000000")),
        // Where nobody may look.
        (
            "mkdir ../shut; dd if=/dev/zero of=../shut/fill bs=1M count=64 2>/dev/null; chmod 0 ../shut",
            ("STATE_BYTES", "8000000"),
        ),
        // Deeper than anything is counted.
        (
            "i=0; d=..; while [ $i -lt 80 ]; do d=$d/d; i=$((i+1)); done; mkdir -p $d",
            ("STATE_BYTES", "64000000"),
        ),
    ] {
        let house = House::new().await;
        let script = format!("#!/bin/sh\n{script}\nsleep 60\necho done\n");
        let (fill, calm) = (tool("fill"), tool("calm"));
        let files = [
            ("manifest.json", MANIFEST),
            ("fill/manifest.json", &*fill),
            ("fill/run", &*script),
            ("calm/manifest.json", &*calm),
            ("calm/run", "#!/bin/sh\necho calm\n"),
        ];
        let revision = house.make(&files).await;
        house.mount(1, Some(&revision), &json!({}), BEARER);
        let runner = house.serve(&[settings]);
        ready(&runner).await;
        assert_eq!(text_of(&runner.run("c0", "calm", json!({})).await), "calm\n");
        let run = runner.run("c1", "fill", json!({})).await;
        let failure = failure_of(&run);
        assert_eq!(failure.reason, Reason::Files, "{failure:?}");
        assert!(failure.message.contains("ask the owner to raise the limit"), "{failure:?}");
        let (status, problem) = runner.refusal("c2", "calm", json!({})).await;
        assert_eq!((status.as_u16(), problem.kind), (507, Kind::State));
        let said = if script.contains("mkdir -p") { "64 deep" } else { settings.1 };
        assert!(problem.detail.contains(said), "{problem}");
    }
}

/// Its name is gone, and with the process its blocks.
#[tokio::test]
async fn a_file_without_a_name_is_counted_while_it_is_held() {
    let house = House::new().await;
    let (fill, calm) = (tool("fill"), tool("calm"));
    let files = [
        ("manifest.json", MANIFEST),
        ("fill/manifest.json", &*fill),
        (
            "fill/run",
            "#!/bin/sh\nexec 3>../gone\nrm ../gone\ndd if=/dev/zero bs=1M count=64 >&3 2>/dev/null\n\
             sleep 60\necho done\n",
        ),
        ("calm/manifest.json", &*calm),
        ("calm/run", "#!/bin/sh\necho calm\n"),
    ];
    let revision = house.make(&files).await;
    house.mount(1, Some(&revision), &json!({}), BEARER);
    let runner = house.serve(&[("STATE_BYTES", "8000000")]);
    ready(&runner).await;
    let run = runner.run("c1", "fill", json!({})).await;
    assert_eq!(failure_of(&run).reason, Reason::Files, "{run:?}");
    for number in 2.. {
        let id = format!("c{number}");
        let body = json!({"tool": "calm", "parameters": {}});
        let path = famulus_protocol::paths::call(&crate::support::call_id(&id));
        let answer = runner.send(reqwest::Method::POST, &path, Some(body)).await;
        if answer.status().is_success() {
            assert_eq!(text_of(&runner.ended(&id).await.runs[0]), "calm\n");
            break;
        }
        assert!(number < 50, "{answer:?}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_tree_that_was_tampered_with_does_not_serve() {
    let house = House::new().await;
    let tool = tool("t");
    let files = |text: &'static str| {
        [("manifest.json", MANIFEST), ("t/manifest.json", &*tool), ("t/run", text)]
    };
    let one = house.make(&files("#!/bin/sh\necho one\n")).await;
    let two = house.make(&files("#!/bin/sh\necho two\n")).await;
    house.mount(1, Some(&one), &json!({}), BEARER);
    let runner = house.serve(&[]);
    ready(&runner).await;
    serves(&runner, &one).await;
    // As a tool could where the kernel has no Landlock.
    let hex = two.strip_prefix("sha256:").unwrap();
    let script = house.path(&format!("state/revisions/{hex}/t/run"));
    std::fs::write(script, "#!/bin/sh\necho evil\n").unwrap();
    house.mount(2, Some(&two), &json!({}), BEARER);
    says(&runner, "a complaint", |health| !health.complaints.is_empty()).await;
    let complaints = health(&runner).await.complaints;
    assert!(complaints[0].contains("`t/run` is not what the bundle put there"), "{complaints:?}");
    assert_eq!(text_of(&runner.run("c1", "t", json!({})).await), "one\n");
}
