//! Files both ways.

use famulus_protocol::{Kind, OutputFile};
use reqwest::StatusCode;
use serde_json::json;

use crate::support::{Bench, json_of, text_of};

fn file() -> serde_json::Value {
    json!({"parameters": {
        "first": {"type": "file", "description": "A file."},
        "second": {"type": "string", "description": "A file, too."},
    }})
}

const COPY: &str = r"#!/usr/bin/env python3
import json, os, sys
params = json.load(sys.stdin)
folder = os.path.dirname(params['first'])
with open(os.path.join(folder, 'joined.bin'), 'wb') as out:
    for name in ('first', 'second'):
        out.write(open(params[name], 'rb').read())
print(json.dumps({'folder': folder, 'paths': params, 'there': sorted(os.listdir(folder))}))
";

#[tokio::test]
async fn files_come_and_go_as_bytes() {
    let bench = Bench::new();
    bench.tool("join", file(), COPY);
    let runner = bench.start();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    assert_eq!(runner.upload("c1", 0, bytes.clone()).await, StatusCode::NO_CONTENT);
    let parameters = json!({
        "first": {"filename": "large ä.bin", "upload": 0},
        "second": {"filename": "small.txt", "data": "aGk="},
    });
    let run = runner.run("c1", "join", parameters).await;
    let seen = json_of(&run);
    // Plugins expect their name beneath the scratch folder.
    assert_eq!(seen["folder"], bench.path("tmp/test").to_str().unwrap());
    assert_eq!(seen["paths"]["second"], bench.path("tmp/test/small.txt").to_str().unwrap());
    // What the tool was given and left alone is none of its outputs.
    let bytes_out = 300_002;
    assert_eq!(run.files, [OutputFile { index: 0, name: "joined.bin".into(), bytes: bytes_out }]);
    let (status, joined) = runner.file("c1", 0).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(joined, [bytes, b"hi".to_vec()].concat());
    assert_eq!(runner.file("c1", 1).await.0, StatusCode::NOT_FOUND);
    assert!(!bench.path("tmp/test").exists(), "the scratch folder is gone");
    assert!(!bench.path("kept/c1/uploads").exists(), "uploads are gone");
}

#[tokio::test]
async fn a_call_finds_nothing_of_the_one_before() {
    let bench = Bench::new();
    let script = "#!/bin/sh\nls -A ${TMPDIR%/*}/test; echo x > ${TMPDIR%/*}/test/mine\n\
                  mkdir ${TMPDIR%/*}/test/sub && chmod 0 ${TMPDIR%/*}/test/sub\n";
    bench.tool("leaves", json!({}), script);
    let runner = bench.start();
    for id in ["c1", "c2"] {
        let run = runner.run(id, "leaves", json!({})).await;
        assert_eq!(text_of(&run), "");
        assert_eq!(run.files.len(), 1);
    }
    let left: Vec<_> = std::fs::read_dir(bench.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn links_and_pipes_among_the_outputs_are_not_followed() {
    let bench = Bench::new();
    let script = "#!/bin/sh\ncd ${TMPDIR%/*}/test\nln -s BEARER link\nln -s /etc dir\n\
                  mkfifo pipe\nmkdir sub\necho secret > sub/x\necho ok > plain.txt\n";
    let bearer = bench.path("bearer");
    bench.tool("tricks", json!({}), &script.replace("BEARER", bearer.to_str().unwrap()));
    let runner = bench.start();
    let run = runner.run("c1", "tricks", json!({})).await;
    let names: Vec<&str> = run.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["plain.txt"]);
    let note = "3 files were left out: links, and what is no regular file, are not taken";
    assert_eq!(run.notes, [note]);
    assert_eq!(runner.file("c1", 0).await.1, b"ok\n");
}

#[tokio::test]
async fn the_scratch_folder_may_be_swapped_and_nothing_outside_is_taken() {
    let bench = Bench::new();
    bench.write("state/outside/secret.txt", "secret");
    let script = "#!/bin/sh\ncd ${TMPDIR%/*}\nrm -rf test\nln -s STATE/outside test\necho done\n";
    bench.tool("swap", json!({}), script);
    let runner = bench.start();
    let run = runner.run("c1", "swap", json!({})).await;
    assert_eq!(run.files, []);
    assert_eq!(bench.read("state/outside/secret.txt"), "secret");
}

#[tokio::test]
async fn names_that_lead_out_are_refused_before_anything_runs() {
    let bench = Bench::new();
    bench.tool("join", file(), "#!/bin/sh\ntouch STATE/ran\n");
    let runner = bench.start();
    for name in ["../escape", "/etc/cron.d/x", "a/b", "..", "", "new\nline"] {
        let parameters = json!({"first": {"filename": name, "data": "aGk="}});
        let (status, problem) = runner.refusal("c1", "join", parameters).await;
        assert_eq!((status, problem.kind), (StatusCode::BAD_REQUEST, Kind::Parameters), "{name}");
    }
    assert!(!bench.path("state/ran").exists());
    assert!(!bench.path("tmp/escape").exists());
}

#[tokio::test]
async fn more_than_25_mib_are_refused_and_more_than_that_are_left() {
    let bench = Bench::new();
    bench.tool("join", file(), "#!/bin/sh\n");
    let script = "#!/bin/sh\ncd ${TMPDIR%/*}/test\nhead -c 26214401 /dev/zero > large\n\
                  echo ok > small\necho '{\"made\": true}'\n";
    bench.tool("large", json!({}), script);
    let runner = bench.start();
    let status = runner.upload("c1", 0, vec![0; 25 * 1024 * 1024 + 1]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    for index in 0..2 {
        let bytes = vec![0; 13 * 1024 * 1024];
        assert_eq!(runner.upload("c2", index, bytes).await, StatusCode::NO_CONTENT);
    }
    let parameters = json!({
        "first": {"filename": "a", "upload": 0}, "second": {"filename": "b", "upload": 1},
    });
    let (status, problem) = runner.refusal("c2", "join", parameters).await;
    assert_eq!((status, problem.kind), (StatusCode::PAYLOAD_TOO_LARGE, Kind::TooLarge));
    let run = runner.run("c3", "large", json!({})).await;
    assert_eq!(json_of(&run)["made"], true);
    assert_eq!(run.files, []);
    assert!(run.notes[0].contains("none was taken"), "{:?}", run.notes);
}
