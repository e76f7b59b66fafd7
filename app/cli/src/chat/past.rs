//! The lines that were typed, but for those that hold a value: they are in no file, and no key brings them back.

use famulus_core::configure::is_configure;
use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};
use std::io;

pub(crate) struct Past(pub(crate) FileBackedHistory);

impl History for Past {
    fn save(&mut self, item: HistoryItem) -> Result<HistoryItem> {
        if holds_a_value(&item.command_line) { Ok(item) } else { self.0.save(item) }
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.0.load(id)
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.0.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        self.0.search(query)
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> Result<()> {
        self.0.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.0.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.0.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.0.session()
    }
}

/// With two slashes it is sent as a message, and obeyed by the server all the same.
fn holds_a_value(line: &str) -> bool {
    let line = line.trim_start();
    is_configure(line.strip_prefix('/').unwrap_or(line)) || is_configure(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reedline::SearchDirection;

    #[test]
    fn a_value_is_in_no_history() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let mut past = Past(FileBackedHistory::with_file(9, path.clone()).unwrap());
        let typed = [
            "hello",
            "/configure weather api_key s3cret",
            "  /CONFIGURE weather api_key s3cret",
            "//configure weather api_key s3cret",
            "/configure weather api_key two\nlines s3cret",
            "/status",
        ];
        for line in typed {
            past.save(HistoryItem::from_command_line(line)).unwrap();
        }
        past.sync().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "hello\n/status\n");
        let all = SearchQuery::everything(SearchDirection::Forward, None);
        assert_eq!(past.search(all).unwrap().len(), 2, "no key brings it back");
    }
}
