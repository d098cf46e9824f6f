//! `cargo run -p house -- cycles|words|links|paths|surface`: prints what a check finds; ends with 1
//! if it is anything. `surface --write` records the present public items.

use std::process::ExitCode;

fn main() -> ExitCode {
    let root = house::tree::root();
    let checks: Vec<String> = std::env::args().skip(1).collect();
    if checks == ["surface", "--write"] {
        return match house::surface::write(&root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("crates/house/surface: {error}");
                ExitCode::from(2)
            }
        };
    }
    let checks = if checks.is_empty() {
        ["cycles", "words", "links", "paths", "surface"].map(str::to_owned).to_vec()
    } else {
        checks
    };
    let mut found = 0;
    for check in checks {
        let findings = match check.as_str() {
            "cycles" => house::find_cycles(&root),
            "words" => house::find_words(&root),
            "links" => house::find_links(&root),
            "paths" => house::find_paths(&root),
            "surface" => house::find_surface(&root),
            _ => {
                eprintln!("{check}: choose cycles, words, links, paths or surface");
                return ExitCode::from(2);
            }
        };
        found += findings.len();
        findings.iter().for_each(|finding| println!("{finding}"));
        println!("{check}: {}", findings.len());
    }
    ExitCode::from(u8::from(found > 0))
}
