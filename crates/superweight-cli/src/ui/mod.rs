//! What the user sees and does while a command runs: lines, bars, tables, messages, units, Ctrl-C.

pub mod duration;
mod invocation;
mod message;
pub mod progress;
pub mod screen;
pub mod signals;
pub mod size;
pub mod table;

pub use invocation::{as_typed, typed};
pub use message::message;
