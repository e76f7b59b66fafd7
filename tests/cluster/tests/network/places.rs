//! Whom there is to reach, and who may: the table.

use std::net::IpAddr;

use famulus_cluster_tests::kubectl::{address, object, objects};
use famulus_cluster_tests::release;
use serde_json::{Value, json};

use crate::outside::{HOUSE, METADATA, PORT};
use crate::rows::{BESIDE, Cell, Row, stand};

/// `o` is reached, `.` is not: by Pods of the classes None and Internet, by one that builds, by one of
/// the sandbox with labels of its own invention, by one of another namespace with all the right
/// labels, by one of the release's namespace that is not the release's, and by one that takes backups. An
/// address that the node has in the internet is public for as long as `network.clusterRanges` does not name it.
const TABLE: &str = "
                                none internet build invented beside release backup
    tcp app callback             o      o      o      .        .      .       .
    tcp app callback by service  o      o      o      .        .      .       .
    tcp app canary               .      .      .      .        o      o       .
    tcp app                      .      .      .      .        o      o       .
    tcp app by service           .      .      .      .        o      o       .
    tcp app internal             .      .      .      .        .      .       .
    tcp postgres                 .      .      .      .        .      .       o
    tcp postgres by service      .      .      .      .        .      .       o
    tcp operator metrics         .      .      .      .        .      .       .
    tcp api by service           .      .      .      .        o      o       o
    tcp api by node              .      .      .      .        o      o       o
    tcp api from outside         .      o      o      .        o      o       o
    tcp kubelet                  .      .      .      .        o      o       .
    tcp node                     .      .      .      .        o      o       .
    udp node                     .      .      .      .        o      o       .
    tcp node from outside        .      o      o      .        o      o       .
    udp node from outside        .      o      o      .        o      o       .
    tcp metadata                 .      .      .      .        o      o       .
    udp metadata                 .      .      .      .        o      o       .
    tcp house                    .      .      .      .        o      o       .
    udp house                    .      .      .      .        o      o       .
    tcp names by service         .      .      .      .        o      o       o
    udp names by service         .      .      .      .        o      o       o
    tcp names                    .      .      .      .        o      o       o
    udp names                    .      .      .      .        o      o       o
    tcp resolver by service      .      o      o      .        .      .       .
    udp resolver by service      .      o      o      .        .      .       .
    tcp resolver                 .      o      o      .        .      .       .
    udp resolver                 .      o      o      .        .      .       .
    tcp resolver probe           .      .      .      .        .      .       .
    udp resolver probe           .      .      .      .        .      .       .
    tcp runner                   .      .      .      .        .      .       o
    tcp plugin                   .      .      .      .        .      .       .
    udp plugin                   .      .      .      .        .      .       .
    tcp internet                 .      o      o      .        o      o       .
    udp internet                 .      o      o      .        o      o       o
";

/// The rows, the cells, and whether each is open: by row, then by cell.
pub(crate) struct Places {
    pub(crate) rows: Vec<Row>,
    neighbour: IpAddr,
    pub(crate) names: Vec<String>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) open: Vec<Vec<bool>>,
}

impl Places {
    /// Makes the rows and finds the rest.
    pub(crate) async fn find() -> Self {
        let release = release::name();
        let sandbox = format!("{release}-sandbox");
        let of_class = |part: &str, class: &str| {
            json!({
                "famulus.dev/part": part, "famulus.dev/egress": class,
                "famulus.dev/callback": "allowed", "famulus.dev/plugin": "network-row",
            })
        };
        let of_release = |component: &str| {
            json!({
                "app.kubernetes.io/name": "famulus", "app.kubernetes.io/instance": release,
                "app.kubernetes.io/component": component,
            })
        };
        let mut invented = of_release("app");
        invented["famulus.dev/egress"] = "everything".into();
        invented["famulus.dev/callback"] = "please".into();
        let mut rows = stand(&[
            ("row-none", &sandbox, of_class("runner", "none")),
            ("row-internet", &sandbox, of_class("runner", "internet")),
            ("row-build", &sandbox, of_class("build", "internet")),
            ("row-invented", &sandbox, invented),
            ("row-beside", BESIDE, of_class("runner", "internet")),
            ("row-release", &release, json!({})),
            ("row-backup", &release, of_release("backup")),
            ("row-neighbour", &sandbox, of_class("runner", "none")),
        ])
        .await;
        let neighbour = rows.pop().unwrap().address;
        let open = rows.iter().map(|_| Vec::new()).collect();
        let (names, cells) = (Vec::new(), Vec::new());
        let mut places = Self { rows, neighbour, names, cells, open };
        for line in TABLE.lines().filter(|line| line.contains(" . ") || line.contains(" o ")) {
            let (name, open) = line.trim().split_once("  ").unwrap();
            places.names.push(name.to_owned());
            for (number, mark) in open.split_whitespace().enumerate() {
                places.open[number].push(mark == "o");
            }
        }
        places.look_up().await;
        places
    }

    /// Finds the addresses, which may be others than before.
    pub(crate) async fn look_up(&mut self) {
        let book = Book::read(&release::name(), self.neighbour).await;
        self.cells = self.names.iter().map(|name| book.cell(name)).collect();
    }

    /// Expects something else of a cell from now on.
    pub(crate) fn expect(&mut self, row: &str, name: &str, open: bool) {
        let row = self.rows.iter().position(|one| one.name == row).unwrap();
        let cell = self.names.iter().position(|one| one == name).unwrap();
        self.open[row][cell] = open;
    }

    /// Each cell that is not as the table says.
    pub(crate) async fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (row, open) in self.rows.iter().zip(&self.open) {
            let said = row.look(&self.cells).await;
            for ((name, said), open) in self.names.iter().zip(said).zip(open) {
                if said != if *open { "open" } else { "silent" } {
                    wrong.push(format!("{}, {name}: {said}", row.name));
                }
            }
        }
        wrong
    }

    /// The cells that are shut to a row.
    pub(crate) fn shut(&self, row: usize) -> Vec<(String, Cell)> {
        let of_row = self.names.iter().zip(&self.cells).zip(&self.open[row]);
        let shut = of_row.filter(|(_, open)| !**open);
        shut.map(|((name, cell), _)| (name.clone(), cell.clone())).collect()
    }
}

/// Where everybody is.
struct Book {
    app: String,
    postgres: String,
    operator: String,
    resolver: String,
    names: String,
    neighbour: String,
    node: String,
    services: Vec<Value>,
}

impl Book {
    async fn read(release: &str, neighbour: IpAddr) -> Self {
        let of = async |part: &str| {
            address(release, &format!("app.kubernetes.io/component={part}")).await
        };
        let nodes = objects("", "nodes", "").await;
        let node = nodes[0]["status"]["addresses"][0]["address"].as_str().unwrap().to_owned();
        let mut services = objects(release, "services", "").await;
        services.push(object("default", "service", "kubernetes").await.unwrap());
        services.push(object("kube-system", "service", "kube-dns").await.unwrap());
        Self {
            app: of("app").await,
            postgres: of("postgres").await,
            operator: of("operator").await,
            resolver: of("resolver").await,
            names: address("kube-system", "k8s-app=kube-dns").await,
            neighbour: neighbour.to_string(),
            node,
            services,
        }
    }

    fn service(&self, name: &str) -> String {
        let mut all = self.services.iter();
        let service = all.find(|service| service["metadata"]["name"] == name).unwrap();
        service["spec"]["clusterIP"].as_str().unwrap().to_owned()
    }

    fn cell(&self, name: &str) -> Cell {
        let (kind, what) = name.split_once(' ').unwrap();
        let release = release::name();
        let (host, port) = match what {
            "app callback" => (self.app.clone(), 3002),
            "app callback by service" => (self.service(&format!("{release}-callback")), 3002),
            "app canary" => (self.app.clone(), 3003),
            "app" => (self.app.clone(), 3000),
            "app by service" => (self.service(&release), 3000),
            "app internal" => (self.app.clone(), 3001),
            "postgres" => (self.postgres.clone(), 5432),
            "postgres by service" => (self.service(&format!("{release}-postgres")), 5432),
            "operator metrics" => (self.operator.clone(), 8080),
            "api by service" => (self.service("kubernetes"), 443),
            "api by node" => (self.node.clone(), 6443),
            "api from outside" => ("198.51.100.1".to_owned(), 6443),
            "kubelet" => (self.node.clone(), 10250),
            "node" => (self.node.clone(), PORT),
            "node from outside" => ("198.51.100.1".to_owned(), PORT),
            "metadata" => (METADATA.to_owned(), 80),
            "house" => (HOUSE.to_owned(), 80),
            "names by service" => (self.service("kube-dns"), 53),
            "names" => (self.names.clone(), 53),
            "resolver by service" => (self.service(&format!("{release}-resolver")), 53),
            "resolver" => (self.resolver.clone(), 5353),
            "resolver probe" => (self.resolver.clone(), 5354),
            "runner" => (self.neighbour.clone(), 8090),
            "plugin" => (self.neighbour.clone(), PORT),
            "internet" if kind == "udp" => ("198.51.100.53".to_owned(), 53),
            "internet" => ("198.51.100.10".to_owned(), 80),
            other => panic!("nobody is called {other}"),
        };
        (if kind == "udp" { "udp" } else { "tcp" }, host, port)
    }
}
