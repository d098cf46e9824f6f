//! The help of `swn` itself, of verbs for maintainers, completions, and flags that have moved.

#[macro_use]
mod common;

use common::Folder;

pinned! {
    help: "--help", "results --help", "results publish --help", "results table --help", "completions --help";
    moved_flags:
        "report runs/a --publish results/a --commit 8802b29",
        "report results --table --out README.md",
        "report runs/a --row b",
        "results publish runs/a --out results/a --commit main",
        "results publish runs/a --out results/a",
        "completions tcsh";
}

#[test]
fn shells_get_a_script_that_completes_verbs_and_flags() {
    let folder = Folder::new("completions");
    for (shell, words) in
        [("bash", ["_swn()", "--batch-size"]), ("zsh", ["#compdef swn", "--validation"])]
    {
        let output = folder.run(&format!("completions {shell}"));
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert!(words.iter().all(|word| script.contains(word)), "{shell}: {words:?}");
    }
}
