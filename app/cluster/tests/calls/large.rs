//! Results that are larger than one may be.

use famulus_core::sandbox::RunOutput;
use serde_json::{Value, json};

use crate::bench::{Bench, result_of};
use crate::runner::address;

const BIG: &str = "#!/bin/sh\nhead -c 1000000 /dev/zero | tr '\\0' x\n";

#[tokio::test]
async fn a_call_whose_runs_print_a_lot_has_an_outcome_that_says_what_was_cut() {
    let bench = Bench::new().await;
    bench.plugin.tool("big", json!({}), BIG);
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    let items = Value::Array(vec![json!({}); 40]);
    let result = result_of(bench.run("c1", "big", items).await);
    assert_eq!(result.runs.len(), 40);
    for (number, run) in result.runs.iter().enumerate() {
        let RunOutput::Text(text) = &run.output else { panic!("{number}: {:?}", run.output) };
        assert!(text.starts_with("xxx"), "{number}: {text:.20}");
        assert_eq!(text.len() < 1_000_000, !run.notes.is_empty(), "{number}: {:?}", run.notes);
    }
    let last = &result.runs[39].notes;
    assert!(last[0].contains("the result of a call may have 8388608 bytes"), "{last:?}");
}
