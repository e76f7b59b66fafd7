//! Private repositories: over ssh by a key, over https by a token, from hosts that say who they are.

use std::fs;
use std::path::Path;
use std::process::Command;

use famulus_machine::{PluginRecord, StepError};
use famulus_protocol::revision::{BuildSource, Bundled};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::bench::{Bench, borrowed, files, in_world};
use crate::internet::repository;
use crate::world::World;

/// To be in nothing that is said.
const TOKEN: &str = "canary-of-a-token";

/// Where the machine has credentials of all kinds.
const CREDENTIALS: &str = "/mnt";

/// Git's own program for web servers, for who has the token.
const WEB: &str = r#"
import base64, http.server, os, ssl, subprocess, sys
folder, wanted = sys.argv[1], "Basic " + base64.b64encode(b"ada:" + sys.argv[2].encode()).decode()
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            return self.end_headers()
        path, _, query = self.path.partition("?")
        told = {"GIT_PROJECT_ROOT": folder + "/repositories", "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "PATH": os.environ["PATH"],
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "ada",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        said = subprocess.run(["git", "http-backend"], input=body, env=told, stdout=subprocess.PIPE).stdout
        head, _, body = said.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        self.send_response(int(dict(lines).get("Status", "200")[:3]))
        for name, value in lines:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/certificate", folder + "/certificate-key")
server = http.server.ThreadingHTTPServer(("", 443), Answer)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("serves", flush=True)
server.serve_forever()
"#;

fn ran(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A repository, keys and certificates.
fn furnish(folder: &Path) {
    let said = files("secret", "say", false, "#!/bin/sh\necho said\n");
    repository(&folder.join("repositories/secret"), &borrowed(&said));
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    for name in ["owner", "stranger"] {
        ran(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &path(name)]);
    }
    for name in ["host", "other-host"] {
        let said = ran(&["dropbearkey", "-t", "ed25519", "-f", &path(name)]);
        let key = said.lines().find(|line| line.starts_with("ssh-ed25519 ")).unwrap();
        let key = key.split(' ').nth(1).unwrap();
        fs::write(path(&format!("{name}.known")), format!("far.example ssh-ed25519 {key}\n"))
            .unwrap();
    }

    let mut of_authority = CertificateParams::default();
    of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = KeyPair::generate().unwrap();
    let certificate = of_authority.self_signed(&authority).unwrap();
    fs::write(path("ca.crt"), certificate.pem()).unwrap();
    let issuer = rcgen::Issuer::new(of_authority, authority);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["far.example".to_owned()]).unwrap();
    let server = server.signed_by(&key, &issuer).unwrap();
    fs::write(path("certificate"), server.pem()).unwrap();
    fs::write(path("certificate-key"), key.serialize_pem()).unwrap();
    let netrc = format!("machine far.example login ada password {TOKEN}\n");
    fs::write(path("netrc"), netrc).unwrap();
}

/// A host that asks who comes, and what the owner of the machine may have for it.
fn world(folder: &Path) -> World {
    furnish(folder);
    let mut world = World::new();
    let from = folder.display();
    let sign_in = format!(
        "mount -t tmpfs -o mode=700 none /root && mkdir -m 700 /root/.ssh \
         && cp {from}/owner.pub /root/.ssh/authorized_keys && ln -s {from}/repositories /root/repositories \
         && exec dropbear -F -E -s -p 22 -r {from}/host"
    );
    world.serve(&["sh", "-c", &sign_in]);
    let folder = folder.to_str().unwrap();
    world.serve(&["/usr/bin/python3", "-c", WEB, folder, TOKEN]);
    let given = |name: &str, files: &[(&str, &str)]| {
        let all = files.iter().map(|(file, from)| format!("cp {folder}/{from} {name}/{file}\n"));
        format!("mkdir {name}\n{}chmod -R a+rX {name}\n", all.collect::<String>())
    };
    let (key, known) = ("ssh-privatekey", "known_hosts");
    world.in_machine(&format!(
        "mount -t tmpfs none {CREDENTIALS}\ncd {CREDENTIALS}\n{}{}{}{}{}",
        given(
            "owner",
            &[(key, "owner"), (known, "host.known"), ("netrc", "netrc"), ("ca.crt", "ca.crt")]
        ),
        given("stranger", &[(key, "stranger"), (known, "host.known"), ("ca.crt", "ca.crt")]),
        given("lured", &[(key, "owner"), (known, "other-host.known"), ("netrc", "netrc")]),
        given("half", &[(known, "host.known")]),
        given("empty", &[]),
    ));
    world
}

/// A machine that has these credentials, and a plugin of which nothing was fetched yet.
async fn having(given: Option<&str>) -> (Bench, PluginRecord) {
    let folder = given.map(|name| Path::new(CREDENTIALS).join(name));
    let bench = Bench::with(|settings| settings.repositories = folder).await;
    let record = bench.add("secret");
    (bench, record)
}

/// Bundles what is at this address.
async fn bundle((bench, record): &(Bench, PluginRecord), url: &str) -> Result<Bundled, String> {
    let source = BuildSource::Git { url: url.to_owned(), r#ref: "main".to_owned() };
    let bundled = bench.machine.bundle(&record.uid, source, Vec::new()).await;
    let left = bench.folder.path().join("data/plugins");
    let copies = ran(&["find", left.to_str().unwrap(), "-name", "repositories"]);
    assert_eq!(copies, "", "a copy of the credentials was left");
    bundled.map_err(|error| {
        let StepError::Failed(failure) = &error else { panic!("{error:?}") };
        assert_eq!(failure.reason, "SourceUnreachable", "{}", failure.message);
        assert!(!failure.message.contains(TOKEN), "{}", failure.message);
        failure.message.clone()
    })
}

#[test]
fn a_private_repository_is_fetched_with_what_the_owner_has_for_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let name = "private::a_private_repository_is_fetched_with_what_the_owner_has_for_its_host";
    let made = || world(folder.path());
    in_world(name, made, async || {
        let ssh = "ssh://root@far.example/root/repositories/secret";
        let short = "root@far.example:repositories/secret";
        let https = "https://far.example/secret/.git";
        let owner = having(Some("owner")).await;
        for url in [ssh, short, https] {
            let bundled = bundle(&owner, url).await.unwrap_or_else(|why| panic!("{url}: {why}"));
            let Bundled::Done { commit, tools, revision, .. } = bundled else {
                panic!("{bundled:?}")
            };
            assert!(commit.is_some());
            assert_eq!(tools, ["say"], "{url}");
            // What is kept needs nobody's permission, and is lent nothing.
            let again = BuildSource::Revision(revision);
            let (bench, record) = &owner;
            let again = bench.machine.bundle(&record.uid, again, Vec::new()).await;
            assert!(matches!(again, Ok(Bundled::Done { .. })), "{again:?}");
        }
        let private = "it is private or is not there";
        for (given, refused) in [
            (Some("stranger"), &[(ssh, private), (https, private)][..]),
            // Who vouches for it is nobody whom the machine believes.
            (Some("lured"), &[(ssh, "`known_hosts` of the credentials"), (https, "certificate")]),
            (Some("half"), &[(ssh, "there is no `ssh-privatekey` for it")]),
            (Some("empty"), &[(https, "empty/netrc")]),
            (None, &[(short, "plugins.repositories.credentials")]),
        ] {
            let machine = having(given).await;
            for (url, why) in refused {
                let said = bundle(&machine, url).await.unwrap_err();
                assert!(said.contains(why), "{given:?} {url}: {said}");
            }
        }
    });
}
