//! What is about to happen and why, before each stage; what a stage decides is told by the screen of `swn train`.

use std::io::Write;
use std::path::Path;

use superweight::plan::number::with_commas;
use superweight::recipe::Resolved;
use superweight::train::{Decided, Observer, Progress, Stage};

use super::Screen;

/// A stage of the demo.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Chapter {
    Plan,
    Search,
    Train,
    Refine,
    Plain,
    Use,
}

impl Chapter {
    fn text(self) -> [&'static str; 2] {
        match self {
            Self::Plan => ["1  plan", "what fits into the budget, before anything is trained"],
            Self::Search => [
                "2  search",
                "which layers pull their shared weights the same way? those stay together",
            ],
            Self::Train => ["3  train", "from the start again, with the clusters found"],
            Self::Refine => [
                "4  refine",
                "layers that ask different things of their coefficients get their own",
            ],
            Self::Use => ["6  use", "one member, or both: accuracy against time, on this machine"],
            Self::Plain => ["5  compare", "as many numbers in one plain network, trained alike"],
        }
    }
}

impl Chapter {
    /// Its title and what it is about.
    pub fn line(self) -> String {
        let [title, what] = self.text();
        format!("{title:<11}{what}")
    }
}

/// Tells the chapters while a run is watched.
pub struct Story<'a, W: Write> {
    screen: Screen<'a, W>,
    first: Chapter,
}

impl<'a, W: Write> Story<'a, W> {
    pub fn new(screen: Screen<'a, W>, first: Chapter) -> Self {
        Self { screen, first }
    }

    /// Takes the bar away.
    pub fn end(mut self) {
        self.screen.clear();
    }

    fn chapter(&mut self, chapter: Chapter) {
        self.screen.line(&format!("\n{}", chapter.line()));
    }
}

impl<W: Write> Observer for Story<'_, W> {
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

/// What the demo is about.
pub fn opening(shared: &Resolved, plain: &Resolved) -> String {
    let names = |resolved: &Resolved| {
        let names: Vec<_> = resolved.members.iter().map(ToString::to_string).collect();
        names.join(" and ")
    };
    format!(
        "swn demo   {} learn to share their numbers, beside {} which shares nothing\n           \
         seed {}; {} epochs each on {}; some minutes on two cores, Ctrl-C stops\n",
        names(shared),
        names(plain),
        shared.seed,
        with_commas(shared.train.epochs),
        shared.data.name,
    )
}

/// Where everything lies, and what to try next.
pub fn ending([shared, plain]: [&Path; 2], report: &Path, time: &str) -> String {
    let (shared, plain) = (shared.display(), plain.display());
    let report = std::path::absolute(report).unwrap_or_else(|_| report.to_owned());
    format!(
        "took       {time}\n\
         runs       {shared}, {plain}\n\
         report     {}\n\
         next       swn report {shared} {plain}    both beside each other\n           \
         swn search --replay {shared} --tau 0.2     other clusters, without training\n           \
         swn train recipes/quick.toml                 a network of your own: copy the recipe\n           \
         swn plan --members wrn-28-10 --budget 10%    what fits, for any network\n",
        report.display(),
    )
}
