//! What can be typed after `swn completions`.

use clap::Args;
use clap_complete::Shell;

/// Print a script that completes verbs and flags in a shell.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// Shell to print the script for.
    pub shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  swn completions bash > ~/.local/share/bash-completion/completions/swn
  swn completions zsh > ~/.zfunc/_swn
  swn completions fish > ~/.config/fish/completions/swn.fish";
