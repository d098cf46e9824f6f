//! Files that `swn results table` reads beside those of other targets: `rows.toml` (first byte
//! even) and the `run.json` of a published run (odd).
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::path::PathBuf;
use std::sync::LazyLock;

use superweight::report::published::{load_rows, open_all, table};
use superweight_fuzz::put;

static RESULTS: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder =
        std::env::temp_dir().join(format!("superweight-fuzz-results-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("run")).expect("there is room for a folder");
    folder
});

superweight_fuzz::target!(|bytes: &[u8]| {
    let Some((&which, contents)) = bytes.split_first() else { return };
    if which % 2 == 0 {
        put(&RESULTS.join("rows.toml"), contents);
        if let Ok(rows) = load_rows(&RESULTS) {
            table(&RESULTS, &rows, &[]);
        }
    } else {
        put(&RESULTS.join("run/run.json"), contents);
        let _ = open_all(&RESULTS);
    }
});
