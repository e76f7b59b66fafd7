//! Who reaches whom, cell by cell.

use std::collections::BTreeSet;

use famulus_cluster_tests::kubectl::{LONG, until};

use crate::outside::{Listeners, Taps};
use crate::places::Places;
use crate::rows::remove;

#[tokio::test]
async fn every_pod_reaches_what_the_table_says_and_nothing_else() {
    let _listeners = Listeners::start().await;
    let places = Places::find().await;
    let taps = Taps::start().await;
    let wrong = until("what is open is reached", LONG, async || {
        let wrong = places.wrong().await;
        // An enforcer learns of a new Pod a moment late; what is shut is shut from the beginning.
        let is_late = !wrong.is_empty() && wrong.iter().all(|cell| cell.ends_with(": silent"));
        if is_late { Err(format!("{wrong:#?}")) } else { Ok(wrong) }
    })
    .await;
    assert!(wrong.is_empty(), "{} cells: {wrong:#?}", wrong.len());
    println!("{} cells are as the table says", places.rows.len() * places.cells.len());

    // Nobody's answer is no proof that nothing was sent.
    for (number, row) in places.rows.iter().enumerate() {
        let sent = taps.seen(&BTreeSet::from([row.address.to_string()])).await;
        let shut = places.shut(number);
        let leaked: Vec<&String> = sent
            .iter()
            .filter(|line| {
                shut.iter().any(|(_, (kind, host, port))| {
                    line.ends_with(&format!(" {kind} {host} {port}"))
                })
            })
            .collect();
        println!("{}: {} ways out, {} shut", row.name, sent.len(), shut.len());
        // Others send freely; it is the one who is asked that is shut.
        if !["row-beside", "row-release"].contains(&row.name.as_str()) {
            assert!(leaked.is_empty(), "{}: {leaked:?}", row.name);
        }
        assert!(row.name == "row-invented" || !sent.is_empty(), "the taps see what is sent");
    }
    taps.end().await;
    remove().await;
}
