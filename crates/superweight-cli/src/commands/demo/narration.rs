//! The text of the demo: what each stage does, before it begins. The screen of `swn train` prints
//! what a stage decides.

use std::io::Write;
use std::path::Path;

use superweight::plan::number::with_commas;
use superweight::recipe::Resolved;
use superweight::train::{Decided, Observer, Progress, Stage};

use crate::args::DemoArgs;
use crate::ui::screen::Screen;
use crate::ui::typed;

/// A stage of the demo.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Chapter {
    Plan,
    Search,
    Train,
    Refine,
    Compare,
    Use,
}

impl Chapter {
    /// The title of the stage and what it does.
    pub fn line(self) -> String {
        let (title, what) = match self {
            Self::Plan => {
                ("1  plan", "find templates that fit into the budget, before anything is trained")
            }
            Self::Search => {
                ("2  search", "train briefly; layers with similar gradients will share templates")
            }
            Self::Train => ("3  train", "start again with the clusters that were found"),
            Self::Refine => {
                ("4  refine", "layers with different gradients of their coefficients get their own")
            }
            Self::Compare => {
                ("5  compare", "train a plain network with as many parameters in the same way")
            }
            Self::Use => {
                ("6  use", "measure accuracy and time of one member and of both, on this machine")
            }
        };
        format!("{title:<11}{what}")
    }
}

/// Prints the title of each stage around the screen of a run.
pub struct Narration<'a, W: Write> {
    screen: Screen<'a, W>,
    first: Chapter,
}

impl<'a, W: Write> Narration<'a, W> {
    pub fn new(screen: Screen<'a, W>, first: Chapter) -> Self {
        Self { screen, first }
    }

    /// Removes the bar.
    pub fn end(mut self) {
        self.screen.clear();
    }

    fn chapter(&mut self, chapter: Chapter) {
        self.screen.line(&format!("\n{}", chapter.line()));
    }
}

impl<W: Write> Observer for Narration<'_, W> {
    fn on_progress(&mut self, progress: Progress<'_>) {
        match &progress {
            Progress::Ready(_) => self.chapter(self.first),
            Progress::Decided(Decided { stage: Stage::Train, .. }) => self.chapter(Chapter::Refine),
            _ => {}
        }
        let after = match &progress {
            Progress::Ready(_) if self.first == Chapter::Plan => Some(Chapter::Search),
            Progress::Decided(Decided { stage: Stage::Search, .. }) => Some(Chapter::Train),
            _ => None,
        };
        self.screen.on_progress(progress);
        after.into_iter().for_each(|chapter| self.chapter(chapter));
    }
}

/// What the demo does, and which folders it writes.
pub fn opening(shared: &Resolved, plain: &Resolved, args: &DemoArgs) -> String {
    let names = |resolved: &Resolved| {
        let names: Vec<_> = resolved.members.iter().map(ToString::to_string).collect();
        names.join(" and ")
    };
    format!(
        "swn demo   trains {} with shared parameters, then {} without sharing\n           \
         seed {}; {} epochs each on {}; a few minutes on two cores, Ctrl-C stops\n\
         writes     {}/{} and {}/{} (or -2, -3, … if they exist)\n",
        names(shared),
        names(plain),
        shared.seed,
        with_commas(shared.train.epochs),
        shared.data.name,
        args.runs.display(),
        shared.name,
        args.runs.display(),
        plain.name,
    )
}

/// The time taken, the files written, and commands to try next.
pub fn ending([shared, plain]: [&Path; 2], report: &Path, time: &str) -> String {
    let (shared, plain) = (shared.display(), plain.display());
    let report = std::path::absolute(report).unwrap_or_else(|_| report.to_owned());
    let next = [
        (format!("report {shared} {plain}"), "compare both runs"),
        (format!("search --replay {shared} --tau 0.2"), "other clusters, no training"),
        ("train recipes/quick.toml".to_owned(), "train your own networks"),
        ("plan --members wrn-28-10 --budget 10%".to_owned(), "plan any network"),
    ];
    let next = next.map(|(command, what)| (typed(&command), what));
    let width = next.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let mut text = format!(
        "took       {time}\nruns       {shared}, {plain}\nreport     {}\n",
        report.display()
    );
    for (i, (command, what)) in next.iter().enumerate() {
        let head = if i == 0 { "next" } else { "" };
        text += &format!("{head:<10} {command:<width$}    {what}\n");
    }
    text
}
