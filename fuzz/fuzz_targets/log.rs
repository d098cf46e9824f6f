//! Logs: any bytes are lines or an error, and what is read is drawn.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::path::Path;

use superweight::report::{Curves, Headline};
use superweight::run::parse_log;
use superweight_fuzz::PLAN;

superweight_fuzz::target!(|bytes: &[u8]| {
    if let Ok(lines) = parse_log(Path::new("fuzz"), bytes) {
        Curves::new(&lines);
        Headline::new(&PLAN, &lines);
    }
});
