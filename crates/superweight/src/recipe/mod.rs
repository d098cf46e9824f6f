//! Recipes: a short TOML file that a user writes, and the complete, checked form that a run uses.
//!
//! ```text
//! recipe.toml ─┐
//!              ├─► check keys, values ─► Recipe ─► resolve ─► Resolved ─► resolved.toml
//! --set k=v ───┘       (KEYS)         as written  defaults,    │  │
//!                                                  checks      │  └─► Schedule, Augment
//!                                                              └─► PlanRequest
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `keys` | every key with its range and default; synonyms for "did you mean" |
//! | `file` | the fields of a recipe, all optional |
//! | `load`, `overrides`, `source` | reads the file and `--set` flags; finds the place of a key for messages |
//! | `strategy` | the eight ways to decide sharing, as a table |
//! | `schedule` | the learning rate of every step |
//! | `resolve` | defaults and checks |
//! | `resolved` | the complete form, its file, the request to the planner |
//! | `error` | errors, each with its place |
//!
//! ```
//! use superweight::recipe::Recipe;
//!
//! let text = "members = ['wrn-16-4']\nbudget = '20%'";
//! let recipe = Recipe::parse("mine.toml", text, &["train.epochs=30"])?;
//! let resolved = recipe.resolve()?;
//! assert_eq!(resolved.search.as_ref().unwrap().epochs, 3);
//! let plan = resolved.plan_request()?.plan()?;
//! assert!(plan.bill.total() <= plan.budget.unwrap());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod file;
mod keys;
mod load;
mod overrides;
mod resolve;
mod resolved;
pub mod schedule;
mod source;
mod strategy;

pub use crate::model::ensemble::ParameterKind;
pub use error::{Place, RecipeError};
pub use file::{
    CountOrText, Crop, DataTable, EvalTable, PlanTable, Precision, Recipe, RefineTable,
    ScheduleWord, SearchTable, TrainTable,
};
pub use keys::{KEYS, Key, Kind};
pub use resolved::{
    DataSettings, LARGEST_PLAN, PLAN, PlanSettings, RefineSettings, Resolved, SearchPhase,
    TrainSettings,
};
pub use strategy::{Alpha, Method, Similarity, Start, Strategy};
