//! Downloads a file with the system's `curl`, otherwise `wget`.
//!
//! A library was not chosen: a TLS stack is some sixty crates with certificates of its own, for one
//! download per data set. Both programs handle proxies, certificates and retries, and show
//! progress.

use std::io::{self, ErrorKind, IsTerminal};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::data::DataError;

/// Downloads an address to `file`.
pub fn download(address: &str, file: &Path) -> Result<(), DataError> {
    run(address, file, &["curl", "wget"])
}

/// Downloads with the first of these programs that is installed.
fn run(address: &str, file: &Path, programs: &[&str]) -> Result<(), DataError> {
    let failed = |why: String| DataError::Download { address: address.to_owned(), why };
    for program in programs {
        match command(program, address, file).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(format!("{program}: {error}"))),
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let messages = String::from_utf8_lossy(&output.stderr);
                let last = messages
                    .lines()
                    .rfind(|line| !line.trim().is_empty())
                    .map(str::trim)
                    .map(str::to_owned);
                return Err(failed(
                    last.unwrap_or_else(|| format!("{program}: {}", output.status)),
                ));
            }
        }
    }
    Err(failed(format!("there is no {}", programs.join(" and no "))))
}

/// Command line of a download.
fn command(program: &str, address: &str, file: &Path) -> Command {
    let on_terminal = io::stderr().is_terminal();
    let mut command = Command::new(program);
    match program {
        "wget" => {
            command.args([
                "--tries=3",
                "--timeout=30",
                if on_terminal { "--progress=bar" } else { "--no-verbose" },
            ]);
            command.arg("--output-document").arg(file).args(["--", address]);
        }
        _ => {
            command.args(["--fail", "--location", "--retry", "3", "--connect-timeout", "30"]);
            command.args(if on_terminal {
                &["--progress-bar"][..]
            } else {
                &["--silent", "--show-error"]
            });
            command.arg("--output").arg(file).args(["--url", address]);
        }
    }
    command.stdin(Stdio::null()).stderr(if on_terminal {
        Stdio::inherit()
    } else {
        Stdio::piped()
    });
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{Folder, serve_once};

    #[test]
    fn missing_programs_are_named_in_the_error() {
        let error =
            run("http://x/y", Path::new("y"), &["no-curl", "no-wget"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "http://x/y could not be downloaded: there is no no-curl and no no-wget; files already there are taken \
             with '--from PATH'"
        );
    }

    #[test]
    fn both_programs_download_and_report_refusals() {
        for program in ["curl", "wget"] {
            if Command::new(program).arg("--version").output().is_err() {
                eprintln!("skipped: {program} is not installed");
                continue;
            }
            let folder = Folder::new(&format!("download-{program}"));
            let file = folder.0.join("file");
            run(&serve_once("200 OK", b"contents"), &file, &[program]).unwrap();
            assert_eq!(std::fs::read(&file).unwrap(), b"contents");
            let error =
                run(&serve_once("404 Not Found", b""), &file, &[program]).unwrap_err().to_string();
            assert!(error.contains("404"), "{error}");
        }
    }
}
