//! Runs `swn` in a temporary folder and pins its text as a screen.
#![allow(dead_code, unused_macros)] // each test file uses what it needs

use std::path::PathBuf;
use std::process::{Command, Output};

/// The program, started as `swn`: the commands that it suggests begin as it was started.
pub fn swn() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swn"));
    #[cfg(unix)]
    std::os::unix::process::CommandExt::arg0(&mut command, "swn");
    command.env_remove("CARGO");
    command
}

/// A temporary folder for one test, removed afterwards.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("swn-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A folder with a recipe in it, `tiny.toml`.
    pub fn with_recipe(name: &str, recipe: &str) -> Self {
        let folder = Self::new(name);
        std::fs::write(folder.0.join("tiny.toml"), recipe).unwrap();
        folder
    }

    pub fn run(&self, args: &str) -> Output {
        self.run_with(args, &[])
    }

    pub fn run_with(&self, args: &str, variables: &[(&str, &str)]) -> Output {
        self.command(args).envs(variables.iter().copied()).output().unwrap()
    }

    /// The command, ready to run in the folder, with its data sets in `data`.
    pub fn command(&self, args: &str) -> Command {
        let mut command = swn();
        command.args(args.split_whitespace()).current_dir(&self.0).env("SWN_DATA", "data");
        command.env("SWN_DATA_MIRROR", format!("file://{}/mirror", self.0.display()));
        command
    }

    /// The command, its exit code, its output and its errors as one text.
    pub fn screen(&self, args: &str) -> String {
        self.screen_with(args, &[])
    }

    pub fn screen_with(&self, args: &str, variables: &[(&str, &str)]) -> String {
        let output = self.run_with(args, variables);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert!(
            stdout.lines().all(|line| line.chars().count() <= 100),
            "wider than 100 columns:\n{stdout}"
        );
        let code = output.status.code().expect("not killed");
        format!("$ swn {args}\n[exit {code}]\n{stdout}{stderr}")
    }

    pub fn json(&self, args: &str) -> serde_json::Value {
        serde_json::from_slice(&self.run(args).stdout).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

macro_rules! pinned {
    ($($test:ident: $($args:literal),+;)+) => {$(
        #[test]
        fn $test() {
            let folder = Folder::new(stringify!($test));
            let screens: Vec<_> = [$($args),+].iter().map(|args| folder.screen(args)).collect();
            insta::assert_snapshot!(stringify!($test), screens.join("\n"));
        }
    )+};
}
